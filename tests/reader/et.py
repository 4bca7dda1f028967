"""A second reader of PyTorch execution traces, written from docs/import.md alone: python3 et.py TAPEDECK TRACE...

Imports each trace as it is, with --keep-ids, and with a profile made up here, and compares ops, accesses, bindings, sizes and
activations with what `tapedeck export` says, number for number.
"""
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from zstd import decompress


def load(path):
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    elif data[:4] == b"\x28\xb5\x2f\xfd":
        data = decompress(data)
    return json.loads(data.decode("utf-8", "surrogateescape"), strict=False)


def parse(node):
    """The node in one form, whatever its schema."""
    attrs = {a["name"]: a["value"] for a in node.get("attrs", [])}
    sides = [node.get(side, []) for side in ("inputs", "outputs")]
    inputs, outputs = [side["values"] if isinstance(side, dict) else side for side in sides]
    return {"id": node["id"], "name": node["name"], "parent": node.get("ctrl_deps", node.get("parent")), "inputs": inputs,
            "outputs": outputs, "schema": node.get("op_schema", attrs.get("op_schema", "")),
            "rf_id": node.get("rf_id", attrs.get("rf_id", 0))}


def innermost(nodes):
    by_id = {node["id"]: node for node in nodes}
    outer = set()
    for node in nodes:
        above = node
        while node["schema"] and above["parent"] != above["id"]:
            above = by_id[above["parent"]]
            outer.add(above["id"])
    return sorted((n for n in nodes if n["schema"] and n["id"] not in outer), key=lambda n: n["id"])


def is_tensor(value):
    return (isinstance(value, list) and len(value) == 6 and all(type(x) is int for x in value[:5])
            and isinstance(value[5], str))


def leaves(value):
    if is_tensor(value) or not isinstance(value, list):
        yield value
    else:
        for item in value:
            yield from leaves(item)


def on_device(leaf):
    return is_tensor(leaf) and leaf[5].split(":")[0] not in ("", "cpu", "meta")


def mutated(schema):
    """For each argument whether it is written to. The schemas of the traces have no default values with brackets or quotes."""
    depth, start, arguments = 0, schema.index("(") + 1, []
    for at in range(start, len(schema)):
        char = schema[at]
        if depth == 0 and char in ",)":
            arguments.append(schema[start:at].strip())
            start = at + 1
            if char == ")":
                break
        depth += (char in "([") - (char in ")]")
    return ["!)" in argument.split("=")[0] for argument in arguments if argument != "*"]


class Storages:
    def __init__(self, ids, keep_ids):
        self.base = 1
        while self.base <= max(ids, default=0):
            self.base *= 10
        self.keep_ids = keep_ids
        self.bytes, self.current, self.activations, self.split = {}, {}, [], set()

    def begin(self, storage, activation):
        generation = (self.current[storage] - storage) // self.base + 1 if storage in self.current else 0
        sid = self.current[storage] = storage + generation * self.base
        self.bytes[sid] = 0
        if activation:
            self.activations.append(sid)
        if generation:
            self.split.add(storage)
        return sid

    def see(self, storage, end):
        sid = self.current[storage]
        self.bytes[sid] = max(self.bytes[sid], end)
        return sid


def read(nodes, keep_ids, durations):
    ops, out = innermost(nodes), []
    ids = [leaf[1] for op in ops for side in ("inputs", "outputs") for leaf in leaves(op[side]) if on_device(leaf)]
    storages = Storages(ids, keep_ids)
    for op in ops:
        marks, accesses, inputs, bindings = mutated(op["schema"]), {}, set(), []
        for number, argument in enumerate(op["inputs"]):
            for _, storage, offset, numel, size, _ in filter(on_device, leaves(argument)):
                end = (offset + numel) * size
                if storage not in storages.current:
                    storages.begin(storage, False)
                elif not keep_ids and storage not in inputs:
                    sid = storages.current[storage]
                    if sid in storages.activations and end > storages.bytes[sid]:
                        storages.begin(storage, False)
                inputs.add(storage)
                accesses[storages.see(storage, end), "W" if marks[number] else "R"] = True
        flat = [leaf for value in op["outputs"] for leaf in leaves(value)]
        fresh = {}
        for leaf in filter(on_device, flat):
            if leaf[1] not in inputs:
                fresh[leaf[1]] = max(fresh.get(leaf[1], 0), (leaf[2] + leaf[3]) * leaf[4])
        for storage, end in fresh.items():
            if storage not in storages.current:
                storages.begin(storage, True)
            elif not keep_ids and (op["name"].startswith("aten::empty") or storages.bytes[storages.current[storage]] != end):
                storages.begin(storage, True)
        for number, leaf in enumerate(flat):
            if on_device(leaf):
                sid = storages.see(leaf[1], (leaf[2] + leaf[3]) * leaf[4])
                if leaf[1] not in inputs:
                    accesses[sid, "W"] = True
                if sid in storages.activations:
                    bindings.append([number, sid])
        out.append({"name": op["name"], "dur_ns": durations.get(op["rf_id"], 0), "leaves": len(flat), "out": bindings,
                    "acc": [list(access) for access in accesses]})
    return {"ops": out, "storages": {str(sid): size for sid, size in storages.bytes.items()},
            "activation_sids": storages.activations, "retained": []}, len(storages.split)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True).stdout


def compare(tapedeck, trace, folder, keep_ids, durations):
    tape, profile = folder / "step.tape", folder / "profile.json"
    nodes = [parse(node) for node in load(trace)["nodes"]]
    options = ["--keep-ids"] if keep_ids else []
    if durations:
        events = [{"ph": "X", "name": n["name"], "dur": durations[n["rf_id"]] / 1000, "args": {"Record function id": n["rf_id"]}}
                  for n in nodes if n["rf_id"]]
        profile.write_text(json.dumps({"traceEvents": events}))
        options += ["--profile", profile]
    report = json.loads(run(tapedeck, "import", trace, "-o", tape, "--json", *options))
    export = json.loads(run(tapedeck, "export", tape, "--to", "interchange"))
    wanted, split = read(nodes, keep_ids, durations)
    for part, value in wanted.items():
        assert export[part] == value, (trace, part)
    assert report["split_sids"] == split and report["nodes"] == len(nodes)
    assert report["skipped"] == sum(not node["schema"] for node in nodes)
    return len(wanted["ops"])


def main(tapedeck, traces):
    with tempfile.TemporaryDirectory() as name:
        for trace in traces:
            folder = Path(name)
            made_up = {parse(node)["rf_id"]: parse(node)["id"] * 37 + 1 for node in load(trace)["nodes"]}
            made_up[0] = 0
            ops = compare(tapedeck, trace, folder, False, {})
            compare(tapedeck, trace, folder, True, {})
            compare(tapedeck, trace, folder, False, made_up)
            print(f"ok {Path(trace).name}: {ops} ops")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
