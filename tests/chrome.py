"""What `tapedeck export --to chrome` writes, checked by the rules of the Trace Event Format and against the tape itself:
chrome.py TAPEDECK FIXTURE [TRACE...]
"""
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

TAPEDECK = Path(sys.argv[1]).resolve()
NAMES = ["</script>", "\"\\\n\t\0", "\udcff\udcc3(", "é 漢字 😀", "", "\u2028\ud7ff", "/*"]
METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}
REQUIRED = {"X": {"ts", "dur"}, "C": {"ts", "args"}, "M": {"args"}, "s": {"ts", "id", "cat"}, "f": {"ts", "id", "cat", "bp"}, "i": {"ts", "s"}}


def tapedeck(*args):
    done = subprocess.run([TAPEDECK, *map(str, args)], capture_output=True)
    return done.returncode, done.stdout, done.stderr.decode()


def run(*args):
    code, out, err = tapedeck(*args)
    assert code == 0, f"{args}: {err}"
    return out


def unique(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), f"a key twice: {pairs}"
    return dict(pairs)


def every_number(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from every_number(entry)
    elif isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        yield value


def check_rules(trace):
    """The rules of the format: fields, nesting of slices, arrows that hold on to slices."""
    assert set(trace) <= {"traceEvents", "displayTimeUnit", "otherData"} and trace["displayTimeUnit"] in ("ms", "ns")
    slices, arrows = defaultdict(list), defaultdict(dict)
    for event in trace["traceEvents"]:
        kind = event["ph"]
        assert kind in REQUIRED and REQUIRED[kind] <= set(event), event
        assert isinstance(event["name"], str) and isinstance(event["pid"], int) and isinstance(event["tid"], int), event
        event["name"].encode()  # no half of a surrogate pair
        assert all(-(2**53) <= n <= 2**53 for n in every_number({k: v for k, v in event.items() if k not in ("ts", "dur")})), event
        if kind == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0, event
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event))
        elif kind == "M":
            assert METADATA[event["name"]] in event["args"], event
        elif kind == "C":
            assert event["args"] and all(isinstance(v, (int, Decimal)) for v in event["args"].values()), event
        elif kind == "i":
            assert event["s"] in "gpt", event
        else:
            assert isinstance(event["id"], str) and event.get("bp", "e") == "e"
            assert kind not in arrows[event["cat"], event["name"], event["id"]], f"two ends of one arrow: {event}"
            arrows[event["cat"], event["name"], event["id"]][kind] = event
    for track in slices.values():
        track.sort(key=lambda s: (s[0], s[1]))
        for (_, end, first), (start, _, second) in zip(track, track[1:]):
            assert start >= end, f"slices overlap: {first} {second}"

    def under(event):
        return [s for s in slices[event["pid"], event["tid"]] if s[0] <= event["ts"] <= s[1] and s[2]["cat"] == "copy"]

    pairs = []
    for ends in arrows.values():
        assert set(ends) == {"s", "f"} and ends["s"]["ts"] <= ends["f"]["ts"], ends
        pairs.append((under(ends["s"]), under(ends["f"])))
        assert all(pairs[-1]), f"an end of an arrow is in no slice: {ends}"
    return slices, pairs


def check_tape(tape):
    """The same step as the tape has it."""
    trace = json.loads(run("export", tape, "--to", "chrome").decode("ascii"), parse_float=Decimal, object_pairs_hook=unique)
    slices, pairs = check_rules(trace)
    rows = lambda sql: json.loads(run("sql", tape, sql, "--json"))["rows"]
    compute = [event for *_, event in slices[1, 1] if event["cat"] == "op"]
    ops = rows("SELECT name, dur_ns FROM op ORDER BY op")
    still = not any(dur for _, dur in ops) and not slices[1, 2]
    assert sorted((e["args"]["op"], e["name"], e["dur"] * 1000) for e in compute) == [
        (op, name, 1000 if still else dur) for op, (name, dur) in enumerate(ops)]
    code, out, _ = tapedeck("simulate", tape, "--json")
    if code:  # no schedule
        assert not slices[1, 2] and not slices[1, 3] and not pairs
        return
    simulated = json.loads(out)
    memory = [event["args"] for event in trace["traceEvents"] if event["ph"] == "C"]
    assert len(memory) == len(ops) + 1
    assert max(m["device"] for m in memory) <= simulated["peak_bytes"] and max(m["host"] for m in memory) <= simulated["host_peak_bytes"]
    stalls = [event["dur"] for *_, event in slices[1, 1] if event["cat"] == "stall"]
    assert sum(stalls) * 1000 == simulated["stall_ns"]
    for track, total in ((2, "d2h_bytes"), (3, "h2d_bytes")):
        assert sum(e["args"]["bytes"] for *_, e in slices[1, track]) == simulated[total]
        copies = rows("SELECT CAST(sid AS TEXT), op FROM action WHERE schedule = (SELECT MAX(schedule) FROM action) AND kind = "
                      + ("'COPY_D2H'" if track == 2 else "'COPY_H2D'"))
        assert {(e["args"]["sid"], e["args"]["op"]) for *_, e in slices[1, track]} <= {tuple(row) for row in copies}
    # Every copy in has an arrow from a copy out of the same storage.
    assert len(pairs) == len(slices[1, 3])
    for outs, ins in pairs:
        assert {o[2]["args"]["sid"] for o in outs} & {i[2]["args"]["sid"] for i in ins}
        assert min(o[1] for o in outs) <= max(i[0] for i in ins)


def main():
    with tempfile.TemporaryDirectory() as folder:
        def tape(source, name, *budgets):
            path = f"{folder}/{name}.tape"
            run("import", source, "-o", path)
            check_tape(path)
            for budget in budgets:
                code, _, err = tapedeck("plan", path, "--budget", budget)
                assert code in (0, 3), err
                check_tape(path)

        fixture = Path(sys.argv[2])
        tape(fixture, "fixture", "60%", "70%")
        step = json.loads(fixture.read_text())
        large = json.loads(fixture.read_text().replace('"10":', '"18446744073709551614":').replace("[10, ", "[18446744073709551614, ")
                           .replace("[0, 10]", "[0, 18446744073709551614]"))
        hostile = json.loads(fixture.read_text())
        for op, name in zip(hostile["ops"], NAMES):
            op["name"] = name
        hostile["marks"] = [[name, 9] for name in NAMES]
        still = json.loads(fixture.read_text())
        for op in still["ops"]:
            op["dur_ns"] = 0
        empty = {"meta": {}, "ops": [], "storages": {}, "activation_sids": [], "retained": []}
        for name, made in (("step", step), ("large", large), ("hostile", hostile), ("still", still), ("empty", empty)):
            Path(f"{folder}/made.json").write_text(json.dumps(made))
            tape(f"{folder}/made.json", name, "60%")
        for source in sys.argv[3:]:
            tape(source, Path(source).name, "60%", "80%")


main()
