"""What a person sees and does on the page of `tapedeck view`, in a real Chromium: page.py TAPEDECK FIXTURES [SHARED]

With TD_SCREENSHOTS=FOLDER pictures are left there to look at. Exits with 77 where there is no browser.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

from devtools import Browser, find_browser

TAPEDECK, FIXTURES = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SHARED = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
SHOTS = os.environ.get("TD_SCREENSHOTS")
HOSTILE = ["</script><script>hacked = 1</script>", "<img src=x onerror='hacked = 2'>", "\"'`${hacked = 3}\\",
           "\0\x1b[31m\r\n\u2028\u202e", "<!--</title>", "\udcff\udc80bytes é 漢字 😀", "", "__proto__", "x" * 5000]


def tapedeck(*args):
    done = subprocess.run([TAPEDECK, *map(str, args)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def sql(tape, text):
    return json.loads(tapedeck("sql", tape, text, "--json"))["rows"]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = Browser()
        cls.step = cls.tape("step", FIXTURES / "four_layers.json", "60%")
        cls.plain = cls.tape("plain", FIXTURES / "four_layers.json")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def tape(cls, name, source, budget=None):
        tape = cls.path(name + ".tape")
        if not isinstance(source, os.PathLike):
            made, source = source, cls.path(name + ".json")
            Path(source).write_text(json.dumps(made))
        tapedeck("import", source, "-o", tape)
        if budget:
            tapedeck("plan", tape, "--budget", budget)
        return tape

    def view(self, *tapes, width=1280, height=1000, scheme="light"):
        page = self.path("page.html")
        tapedeck("view", *tapes, "-o", page)
        b = self.browser
        b.requests.clear()
        b.errors.clear()
        b.media(scheme)
        b.resize(width, height)
        b.open(page)
        return b

    def tearDown(self):
        b = self.browser
        self.assertEqual(b.errors, [])
        self.assertEqual({url for url in b.requests if not url.startswith(("file://", "data:"))}, set())
        self.assertLessEqual(len([url for url in b.requests if url.startswith("file://")]), 1)

    def shot(self, name):
        if SHOTS:
            self.browser.screenshot(os.path.join(SHOTS, name + ".png"))

    # Where things stand: the pixel of an op and a number of bytes, and of a lane.

    def spot(self, op, part, panel=0, share=0.5):
        return self.browser.evaluate(f"""(() => {{
          scrollTo(0, 0);
          const p = panels[{panel}], r = p.base.getBoundingClientRect(), a = p.axis, y = {part!r};
          const x = p.box.x(a.begin[{op}] + {share} * (a.finish[{op}] - a.begin[{op}]));
          return [r.x + x, r.y + (typeof y === "number" ? p.box.y(y) : y === "compute" ? p.box.compute + 10
                                 : p.box.lanes[y === "D2H" ? 0 : 1] + 8)]; }})()""")

    def test_says_what_the_step_is(self):
        b = self.view(self.step)
        facts = b.text(".facts")
        for fact in ("ops\n9", "activations\n9", "compute\n610 µs", "peak without\n4.2 MiB", "budget\n2.5 MiB", "copied out\n1.9 MiB"):
            self.assertIn(fact, facts)
        self.assertIn("Schedule 1 by timed, as simulated", b.text(".subtitle"))
        self.assertEqual(b.evaluate("document.title"), f"{self.step} – Tapedeck")
        self.shot("light")

    def test_numbers_are_those_of_the_tape(self):
        tapes = [self.step] + ([self.tape("gpt", SHARED / "traces/c_gpt4.json.zst", "60%")] if SHARED and SHARED.is_dir() else [])
        for tape in tapes:
            b = self.view(tape)
            rows = sql(tape, "SELECT name, dur_ns FROM op ORDER BY op")
            self.assertEqual(b.evaluate("[...tapes[0].name].map((n, op) => [tapes[0].names[n], tapes[0].dur[op]])"), rows)
            rows = sql(tape, "SELECT CAST(s.sid AS TEXT), a.op, a.kind = 'W', s.bytes FROM access a JOIN storage s USING (sid)"
                             " ORDER BY a.op, a.seq")
            self.assertEqual(b.evaluate("""(t => [...t.access].map((a, i) => [t.sids[a >> 1], t.accessEnd.findIndex(end => end > i),
                                           a & 1, t.bytes[a >> 1]]))(tapes[0])"""), rows)
            copies = sql(tape, "SELECT CAST(sid AS TEXT), op FROM action WHERE kind = 'COPY_H2D' ORDER BY op, seq")
            self.assertEqual(b.evaluate("(l => [...l.storage].map((s, i) => [tapes[0].sids[s], l.op[i]]))(tapes[0].runs[1].lanes[1])"), copies)
            # The bands add up to the curve, everywhere, and the curve is what simulate says.
            self.assertEqual(b.evaluate("""tapes[0].runs.map(run => run.device.findIndex((bytes, op) => {
              let sum = 0;
              const { first, end, storage } = run.stays;
              first.forEach((from, i) => { if (from <= op && op < end[i]) sum += tapes[0].bytes[storage[i]]; });
              return sum !== bytes; }))"""), [-1, -1])
            simulated = json.loads(tapedeck("simulate", tape, "--json"))
            self.assertEqual(b.evaluate("tapes[0].runs[1].stall.reduce((a, b) => a + b)"), simulated["stall_ns"])
            self.assertLessEqual(b.evaluate("Math.max(...tapes[0].runs[1].device)"), simulated["peak_bytes"])

    def test_pointing_at_a_band_names_it(self):
        b = self.view(self.step)
        b.hover(*self.spot(3, 500000))
        tip = b.text("#tip")
        self.assertIn("linear  SID 12".replace("  ", " "), tip.replace("  ", " "))
        self.assertIn("976.6 KiB", tip)
        self.assertIn("made by op 2, used by 3 ops, last by op 6", tip)
        self.assertIn("longest gap: ops 3 to 6, 110 µs", tip)
        b.hover(*self.spot(5, "compute"))
        self.assertIn("op 5", b.text("#tip"))
        self.assertIn("linear_backward", b.text("#tip"))
        b.hover(5, 5)
        self.assertEqual(b.evaluate("byId('tip').hidden"), True)

    def test_what_is_drawn(self):
        """The colours of the picture, where they must be."""
        for scheme in ("light", "dark"):
            b = self.view(self.step, scheme=scheme)
            drawn = lambda op, part, share=0.5: b.evaluate(f"""(([x, y]) => {{
              const r = panels[0].base.getBoundingClientRect();
              return "#" + [...panels[0].base.getContext("2d").getImageData(x - r.x, y - r.y, 1, 1).data].slice(0, 3)
                .map(c => c.toString(16).padStart(2, "0")).join(""); }})({json.dumps(self.spot(op, part, share=share))})""")
            colours = b.evaluate("palette.names.concat(palette.stall)")
            self.assertEqual(drawn(3, 500000), colours[0])  # linear
            self.assertEqual(drawn(7, 200000), colours[1])  # linear_backward
            self.assertEqual(drawn(4, "compute", share=0.8), colours[2])  # loss
            self.assertEqual(drawn(1, "D2H"), colours[0])
            self.assertEqual(drawn(8, "compute", share=-0.2), colours[-1])  # the stall before it
            self.assertEqual(drawn(8, "H2D", share=-0.2), colours[0])
            self.assertNotIn(drawn(3, 3000000), colours)
            self.assertIn(colours[-1], {drawn(3, 2640002, share=i / 20) for i in range(20)})  # the budget, dashed

    def test_faults_are_listed(self):
        trace = json.loads((FIXTURES / "four_layers.json").read_text())
        trace["schedules"] = [{"planner": "<b>by hand</b>", "memory_limit_bytes": 5000000, "d2h_bytes_per_s": 1e10, "h2d_bytes_per_s": 1e10,
                               "actions": [[1, "post", "RELEASE_DEVICE", 10]]}]
        b = self.view(self.tape("faulty", trace))
        self.assertIn("fault at op 1, SID 10: released while it is needed", b.text(".faults"))
        self.assertIn("fault at op 8, SID 10: used while it is away", b.text(".faults"))
        self.assertIn("Schedule 1 by <b>by hand</b>", b.text(".subtitle"))
        self.shot("faults")

    def test_pointing_at_a_copy_and_a_stall(self):
        b = self.view(self.step)
        b.hover(*self.spot(1, "D2H"))
        self.assertRegex(b.text("#tip"), r"linear +SID 10\n976.6 KiB copied out\nfrom 50.0 µs to 108 µs, issued at op 0")
        x, y = self.spot(8, "compute", share=0)
        b.hover(x - 10, y)
        self.assertIn("stalls 58.2 µs before it", b.text("#tip"))
        self.shot("stall")

    def test_a_click_selects_and_tells_when_it_leaves_and_returns(self):
        b = self.view(self.step)
        b.click(*self.spot(0, 500000))
        details = b.text(".details")
        self.assertIn("SID 10", details)
        self.assertIn("comes at op 0 (0 ns), leaves before op 2", details)
        self.assertIn("returns at op 8", details)
        self.assertIn("copied out from 50.0 µs to 108 µs", details)
        self.assertIn("read by op 8, linear_backward", details)
        self.assertEqual(b.evaluate("document.querySelectorAll('.largest tr[aria-selected=true]').length"), 1)
        self.shot("selected")
        b.key("Escape")
        self.assertEqual(b.text(".details"), "")

    def test_a_row_of_a_table_shows_its_storage(self):
        b = self.view(self.step)
        b.click_on(".gaps tr:nth-child(2) button")
        self.assertIn("SID 10", b.text(".details h3"))
        self.assertIn("1–8", b.text(".gaps tr:nth-child(2)"))
        self.assertIn("yes", b.text(".gaps tr:nth-child(2)"))
        b.click_on(".details .link")
        self.assertIn("op 0 linear", b.text(".details h3").replace("  ", " "))

    def test_zoom_and_pan(self):
        b = self.view(self.step)
        span = lambda: b.evaluate("[view.from, view.to]")
        low, high = span()
        x, y = self.spot(4, 100000)
        under = b.evaluate(f"panels[0].box.at({x} - panels[0].base.getBoundingClientRect().x)")
        b.wheel(x, y, -300, ctrl=True)
        zoomed = span()
        self.assertLess(zoomed[1] - zoomed[0], (high - low) / 2)
        after = b.evaluate(f"panels[0].box.at({x} - panels[0].base.getBoundingClientRect().x)")
        self.assertAlmostEqual(after, under, delta=(high - low) / 500)
        b.drag(x, y, x - 200, y)
        dragged = span()
        self.assertGreater(dragged[0], zoomed[0])
        self.assertAlmostEqual(dragged[1] - dragged[0], zoomed[1] - zoomed[0], delta=1)
        self.assertEqual(b.text(".details"), "")  # a drag is no click
        b.key("ArrowLeft")
        self.assertLess(span()[0], dragged[0])
        b.key("0")
        self.assertEqual(span(), [low, high])
        b.key("+")
        self.assertLess(span()[1] - span()[0], high - low)
        b.key("-")
        b.click_on("#zoom_in")
        b.click_on("#fit")
        self.assertEqual(span(), [low, high])
        b.click(x, y, count=2)
        self.assertLess(span()[1] - span()[0], (high - low) / 2)
        for _ in range(40):
            b.key("+")
        self.assertGreaterEqual(span()[1] - span()[0], 19)

    def test_the_height_fits_what_is_seen(self):
        b = self.view(self.step)
        whole = b.evaluate("panels[0].most")
        self.assertGreater(whole, 4400004)
        b.evaluate("show(0, 40000)")
        b.key("y")
        self.assertAlmostEqual(b.evaluate("panels[0].most"), 1000000 * 1.04)
        b.key("0")
        self.assertAlmostEqual(b.evaluate("panels[0].most"), 4400004 * 1.04)
        b.click_on("#height")
        self.assertEqual(b.evaluate("panels[0].most"), whole)

    def test_search(self):
        b = self.view(self.step)
        b.key("/")
        b.type("BACK")
        self.assertEqual(b.text("#found"), "4 ops")
        b.key("Enter")
        self.assertEqual(b.text("#found"), "1 of 4 ops")
        self.assertIn("op 5", b.text(".details h3"))
        b.key("Enter", shift=True)
        self.assertIn("op 8", b.text(".details h3"))
        self.shot("search")
        b.evaluate("document.activeElement.blur()")
        b.key("n")
        self.assertIn("op 5", b.text(".details h3"))
        b.key(".")
        self.assertIn("op 6", b.text(".details h3"))
        b.key("/")
        b.type("nowhere")
        self.assertEqual(b.text("#found"), "0 ops")

    def test_without_the_schedule_and_by_op(self):
        b = self.view(self.step)
        peak = lambda: b.evaluate("Math.max(...panels[0].columns.most)")
        self.assertEqual(peak(), 2400004)
        b.key("p")
        self.assertEqual(peak(), 4400004)
        self.assertEqual(b.evaluate("byId('plan').getAttribute('aria-pressed')"), "false")
        self.assertNotIn("1 time", b.text(".largest"))
        self.shot("without")
        b.click_on("#axis")
        self.assertEqual(b.evaluate("[view.from, Math.round(view.to)]"), [0, 9])
        b.click_on("#plan")
        self.assertEqual(peak(), 2400004)
        self.shot("by_op")

    def test_hostile_names_are_text(self):
        trace = json.loads((FIXTURES / "four_layers.json").read_text())
        for op, name in zip(trace["ops"], HOSTILE):
            op["name"] = name
        self.assertEqual(len(HOSTILE), len(trace["ops"]))
        trace["marks"] += [[name, 2] for name in HOSTILE]
        tape = self.tape("<img src=x onerror=hacked=4>&\"'", trace, "60%")
        b = self.view(tape)
        self.assertEqual(b.evaluate("typeof hacked"), "undefined")
        self.assertEqual(b.evaluate("document.scripts.length"), 2)
        self.assertEqual(b.evaluate("document.images.length"), 0)
        self.assertEqual(b.text("h1"), tape)
        shown = b.evaluate("tapes[0].names")
        self.assertIn(HOSTILE[0], shown)
        self.assertIn("\\x00\\x1b[31m\\x0d\\x0a\\x2028\\x202e", shown)
        self.assertIn("\ufffd\ufffdbytes é 漢字 😀", shown)
        self.assertIn("(no name)", shown)
        b.click(*self.spot(0, "compute"))
        self.assertIn(HOSTILE[0], b.text(".details h3"))
        for op in range(9):
            b.hover(*self.spot(op, "compute"))
        b.key("/")
        b.type("__proto__")
        self.assertEqual(b.text("#found"), "1 op")
        self.assertEqual(b.evaluate("document.documentElement.scrollWidth <= innerWidth"), True)
        self.shot("hostile")
        picture = self.path("hostile.svg")
        tapedeck("view", tape, "--svg", "-o", picture)
        self.assertIn(tape, "".join(xml.parse(picture).getroot().itertext()))

    def test_every_digit_of_a_sid(self):
        text = (FIXTURES / "four_layers.json").read_text()
        for form in ("[%s, ", "[0, %s]", '"%s":'):
            text = text.replace(form % 10, form % 18446744073709551614)
        b = self.view(self.tape("large", json.loads(text), "60%"))
        self.assertIn("18446744073709551614", b.text(".largest"))
        b.click(*self.spot(0, 500000))
        self.assertIn("copied out from 50.0 µs to 108 µs", b.text(".details"))

    def test_extremes(self):
        empty = {"meta": {}, "ops": [], "storages": {}, "activation_sids": [], "retained": []}
        b = self.view(self.tape("empty", empty))
        self.assertIn("ops\n0", b.text(".facts"))
        b.key(".")
        b.key("+")
        most = 2 ** 64 - 1
        huge = 2 ** 59
        trace = json.loads((FIXTURES / "four_layers.json").read_text())
        trace["storages"]["10"] = huge
        for op in trace["ops"]:
            op["dur_ns"] = most
        b = self.view(self.tape("most", trace))
        self.assertIn("512.0 PiB", b.text(".largest"))

    def test_without_durations_time_is_ops(self):
        trace = json.loads((FIXTURES / "four_layers.json").read_text())
        for op in trace["ops"]:
            op["dur_ns"] = 0
        b = self.view(self.tape("still", trace, "60%"))
        self.assertIn("time is counted in ops", b.text(".subtitle"))
        self.assertEqual(b.evaluate("Math.round(view.to)"), 9)
        b.hover(*self.spot(3, 500000))
        self.assertIn("SID 12", b.text("#tip"))
        self.assertEqual(b.evaluate("byId('axis').hidden"), True)

    def test_two_tapes_stand_beside_each_other(self):
        b = self.view(self.step, self.plain, width=1700)
        first, second = b.evaluate("[...document.querySelectorAll('.panel')].map(p => [p.offsetLeft, p.offsetTop])")
        self.assertEqual(first[1], second[1])
        self.assertGreater(second[0], first[0] + 700)
        self.assertEqual(b.evaluate("panels[0].most === panels[1].most"), True)
        x, y = self.spot(4, 100000)
        b.wheel(x, y, -300, ctrl=True)
        self.assertEqual(b.evaluate("panels[0].box.scale === panels[1].box.scale"), True)
        b.key("0")
        b.click(*self.spot(2, "compute", panel=1))
        self.assertEqual(b.evaluate("[...document.querySelectorAll('.details')].map(d => d.innerText !== '')"), [False, True])
        self.shot("two")
        b.resize(900, 1000)
        b.settle()
        first, second = b.evaluate("[...document.querySelectorAll('.panel')].map(p => [p.offsetLeft, p.offsetTop])")
        self.assertEqual(first[0], second[0])

    def test_nothing_sticks_out(self):
        b = self.view(self.step)
        for width in (320, 390, 768, 1280, 1920):
            for scheme in ("light", "dark"):
                b.resize(width, 900)
                b.media(scheme)
                b.settle()
                self.assertLessEqual(b.evaluate("document.documentElement.scrollWidth"), width)
                self.shot(f"{scheme}_{width}")

    def test_text_can_be_read_in_both_schemes(self):
        b = self.view(self.step)
        for scheme in ("light", "dark"):
            b.media(scheme)
            b.settle()
            contrast = b.evaluate("""(() => {
              const l = c => channels(c).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
                                        .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
              const ratio = (a, b) => (Math.max(l(a), l(b)) + .05) / (Math.min(l(a), l(b)) + .05);
              return { text: ["--text", "--soft", "--focus"].map(c => ratio(css(c), css("--raised"))),
                       names: palette.names.map((c, i) => ratio(c, palette.onName[i])), lines: ["--stall", "--found"].map(c => ratio(css(c), css("--back"))) }; })()""")
            self.assertGreater(min(contrast["text"]), 4.5, contrast)
            self.assertGreater(min(contrast["names"]), 4.5, contrast)
            self.assertGreater(min(contrast["lines"]), 3, contrast)

    def test_dark_redraws_and_paper_is_white(self):
        b = self.view(self.step, scheme="dark")
        b.click(*self.spot(0, 500000))
        self.assertEqual(b.evaluate("palette.dark"), True)
        self.shot("dark")
        b.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(b.evaluate("palette.back"), "#ffffff")
        b.evaluate("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(b.evaluate("palette.dark"), True)
        b.media("dark", kind="print")
        self.assertEqual(b.evaluate("getComputedStyle(byId('controls')).display"), "none")
        b.media("dark")
        pdf = os.path.join(SHOTS or self.folder.name, "page.pdf")
        b.print(pdf)
        self.assertEqual(Path(pdf).read_bytes()[:5], b"%PDF-")

    def test_the_keyboard_reaches_everything(self):
        b = self.view(self.step)
        reached = set()
        for _ in range(40):
            b.key("Tab")
            reached.add(b.evaluate("document.activeElement.id || document.activeElement.className"))
        self.assertLessEqual({"search", "zoom_in", "zoom_out", "fit", "plan", "axis", "height", "help", "base", "link"}, reached)
        b.key("?")
        self.assertEqual(b.evaluate("byId('keys').open"), True)
        self.shot("keys")
        b.evaluate("byId('keys').close()")

    def test_the_picture_opens(self):
        for name, tapes in (("one", [self.step]), ("plain", [self.plain]), ("two", [self.step, self.plain])):
            picture = self.path(name + ".svg")
            tapedeck("view", *tapes, "--svg", "-o", picture)
            for scheme in ("light", "dark"):
                self.browser.media(scheme)
                self.browser.requests.clear()
                self.browser.open(picture)
                self.assertEqual(self.browser.evaluate("document.documentElement.tagName"), "svg")
                self.shot(f"svg_{name}_{scheme}")


if __name__ == "__main__":
    if not find_browser():
        print("no Chromium here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2 if SHOTS else 1)
