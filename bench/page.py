"""How fast the page opens and follows the pointer, beside the alternative: bench/page.py TAPEDECK [--json FILE]

100,000 ops in 50 micro-batches, planned to 60% of their peak. With --json the rows are added to the list in FILE.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/page"))
from devtools import Browser, find_browser

OPS, BATCHES, RUNS = 100_000, 50, 5


def make_trace():
    ops, storages, frees = [], {"0": 4096}, {}
    depth = OPS // BATCHES // 2
    for batch in range(BATCHES):
        first = batch * depth + 1
        for layer in range(depth):
            sid, before = first + layer, [[first + layer - 1, "R"]] if layer else [[0, "R"]]
            storages[str(sid)] = 4096 * (1 + layer * 7 % 61)
            ops.append({"name": f"aten.op{layer % 40}.default", "dur_ns": 5000 + layer * 37 % 20000, "leaves": 1, "out": [[0, sid]],
                        "acc": before + [[sid, "W"]]})
        for layer in reversed(range(depth)):
            ops.append({"name": f"aten.op{layer % 40}_backward.default", "dur_ns": 9000 + layer * 53 % 30000, "leaves": 1,
                        "out": [], "acc": [[first + layer, "R"]]})
            frees[str(first + layer)] = len(ops)
    return {"meta": {}, "ops": ops, "storages": storages, "activation_sids": [int(s) for s in storages if s != "0"], "retained": [],
            "freed_before_op": frees}


def measure(tapedeck, folder):
    trace, tape, page, plain = (os.path.join(folder, name) for name in ("trace.json", "step.tape", "step.html", "plain.html"))
    Path(trace).write_text(json.dumps(make_trace()))
    for command in (["import", trace, "-o", tape], ["plan", tape, "--budget", "60%"], ["view", tape, "-o", page]):
        subprocess.run([tapedeck, *command], check=True, stdout=subprocess.DEVNULL)
    exported = subprocess.run([tapedeck, "export", tape, "--to", "interchange"], check=True, capture_output=True, text=True).stdout
    Path(plain).write_text('<!DOCTYPE html><meta charset="utf-8"><script type="application/json" id="data">'
                           + exported.replace("<", "\\u003c") + '</script><script>const data = JSON.parse(document.getElementById("data").textContent)</script>')
    browser = Browser(1600, 1000)
    try:
        median = lambda path: statistics.median(browser.open(path) for _ in range(RUNS))
        other = median(plain)
        ours = median(page)
        frame = browser.evaluate("""(() => { const times = [];
          show(0, whole() / 1.5);
          for (let i = 0; i < 40; i++) { pan(.01); const start = performance.now(); drawAll(); times.push(performance.now() - start); }
          return times.sort((a, b) => a - b)[20]; })()""")
        assert not browser.errors, browser.errors
    finally:
        browser.close()
    return [["the page of 100,000 ops, opened and drawn", "s", ours, other, "interchange JSON in a page, parsed and not drawn"],
            ["the page, a frame while it is moved", "ms", frame, 1000 / 60, "60 frames a second"],
            ["the page, size", "B/op", os.path.getsize(page) / OPS, os.path.getsize(plain) / OPS, "interchange JSON in a page"]]


def main():
    if not find_browser():
        print("no Chromium here: the page is not measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(str(Path(sys.argv[1]).resolve()), folder)
    for name, unit, ours, other, against in rows:
        print(f"{name:<44} {ours:12.2f} {other:12.2f} {ours / other:8.3f}  {unit:<8} {against}")
    if "--json" in sys.argv:
        path = Path(sys.argv[sys.argv.index("--json") + 1])
        rows = [dict(zip(("name", "unit", "ours", "other", "ratio", "against"), (n, u, o, t, o / t, a))) for n, u, o, t, a in rows]
        path.write_text(json.dumps(json.loads(path.read_text()) + rows, indent=1))


main()
