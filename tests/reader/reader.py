"""A second reader of tapes, written from docs/format.md alone: python3 reader.py TAPEDECK TRACE...

Imports each trace, reads the tape here, and compares with what `tapedeck export` says, number for number; checks every seal
and the digest as well.
"""
import ctypes
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from zstd import decompress

xxhash = ctypes.CDLL("libxxhash.so.0")
xxhash.XXH3_64bits.restype = ctypes.c_uint64
xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


xxhash.XXH3_128bits.restype = Hash128
xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
WORD = 2**64 - 1
NEVER = WORD


def varints(data, at=0):
    """Yields LEB128 numbers."""
    while at < len(data):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        yield value


def unzigzag(code):
    return (code >> 1) ^ -(code & 1)


def decode_varint(data, count):
    return list(varints(data))


def decode_delta(data, count):
    values, before = [], 0
    for code in varints(data):
        before = (before + unzigzag(code)) & WORD
        values.append(before)
    return values


def decode_planes(data, count):
    planes = data[0]
    return [sum(data[1 + p * count + i] << (8 * p) for p in range(planes)) for i in range(count)]


def decode_delta_planes(data, count):
    values, before = [], 0
    for code in decode_planes(data, count):
        before = (before + unzigzag(code)) & WORD
        values.append(before)
    return values


def decode_access(data, count):
    codes = varints(data)
    newest, sids = next(codes), []
    for code in codes:
        if code >= 2:
            sid = sids[-(code - 1)]
        else:
            sid = newest if code == 0 else (newest - unzigzag(next(codes))) & WORD
        sids.append(sid)
        newest = max(newest, sid + 1)
    return sids


def decode_output(data, accesses_of_ops, outputs_of_ops, access_sids):
    codes = varints(data)
    newest, sids, end = next(codes), [], 0
    for n_accesses, n_outputs in zip(accesses_of_ops, outputs_of_ops):
        end += n_accesses
        for _ in range(n_outputs):
            code = next(codes)
            sids.append((newest - unzigzag(next(codes))) & WORD if code == 0 else access_sids[end - code])
    return sids


DECODERS = {0: decode_varint, 1: decode_planes, 2: decode_varint, 3: decode_planes, 4: decode_varint, 5: decode_varint,
            6: decode_varint, 7: decode_varint, 8: decode_access, 9: decode_varint, 10: decode_varint, 12: decode_delta,
            13: decode_varint, 14: decode_delta_planes, 15: decode_delta, 16: decode_delta}
TYPES = {int: 1, float: 2, str: 3, bytes: 4, type(None): 5}


def check_seal(row):
    import struct
    data = b""
    for value in row[:-1]:
        data += bytes([TYPES[type(value)]])
        if isinstance(value, int):
            data += struct.pack("<q", value)
        elif isinstance(value, float):
            data += struct.pack("<d", value)
        elif value is None:
            data += bytes(8)
        else:
            raw = value.encode() if isinstance(value, str) else value
            data += struct.pack("<Q", len(raw)) + raw
    assert xxhash.XXH3_64bits(data, len(data)) == row[-1] & WORD, "a seal does not match"


def read(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    assert db.execute("PRAGMA application_id").fetchone()[0] == 0x5444434B
    assert db.execute("PRAGMA user_version").fetchone()[0] == 1
    for table in ("trace", "block", "trace_mark", "trace_meta", "schedule", "summary"):
        for row in db.execute(f"SELECT * FROM {table}"):
            check_seal(row)
    has_frees = db.execute("SELECT has_frees FROM trace").fetchone()[0]
    blocks = {}
    for col, seq, count, data in db.execute("SELECT col, seq, count, data FROM block WHERE trace = 1 ORDER BY col, seq"):
        raw = decompress(data)
        if col == 11:
            values = decode_output(raw, blocks[6, seq], blocks[7, seq], blocks[8, seq])
        else:
            values = DECODERS[col](raw, count)
        assert len(values) == count, (col, seq)
        blocks[col, seq] = values
    columns = {col: sum((blocks[c, s] for c, s in sorted(blocks) if c == col), []) for col in range(17)}
    names, at, raw = [], 0, bytes(columns[1])
    for length in columns[0]:
        names.append(raw[at:at + length])
        at += length
    ops, access, output = [], 0, 0
    for i, name in enumerate(columns[2]):
        op = {"name": names[name].decode("utf-8", "surrogateescape"), "dur_ns": columns[3][i], "leaves": columns[4][i]}
        op["out"] = [[columns[10][k], columns[11][k]] for k in range(output, output + columns[7][i])]
        op["acc"] = [[columns[8][k], "RW"[columns[9][k]]] for k in range(access, access + columns[6][i])]
        if columns[5][i]:
            op["opaque"] = True
        access += columns[6][i]
        output += columns[7][i]
        ops.append(op)
    trace = {"ops": ops, "storages": {str(s): b for s, b in zip(columns[12], columns[13])},
             "activation_sids": columns[15], "retained": columns[16]}
    frees = {str(s): f - 1 for s, f in zip(columns[12], columns[14]) if f}
    if has_frees:
        trace["freed_before_op"] = frees
    marks = [[names[n].decode("utf-8", "surrogateescape"), op & WORD]
             for n, op in db.execute("SELECT name, op FROM trace_mark ORDER BY seq")]
    if marks:
        trace["marks"] = marks
    for part, key, value in db.execute("SELECT part, key, value FROM trace_meta ORDER BY seq"):
        where = trace.setdefault("meta", {}) if part == "meta" else trace
        where[json.loads(f'"{key}"')] = json.loads(value)
    assert digest(trace, has_frees) == db.execute("SELECT digest FROM summary").fetchone()[0]
    return trace


def digest(trace, has_frees):
    words, order = [], {}

    def number(sid):
        return order.setdefault(sid, len(order) + 1)

    for op in trace["ops"]:
        name = op["name"].encode("utf-8", "surrogateescape")
        words += [xxhash.XXH3_64bits(name, len(name)), op["leaves"] * 2 + op.get("opaque", False), len(op["acc"]), len(op["out"])]
        words += [number(sid) * 2 + (kind == "W") for sid, kind in op["acc"]]
        for leaf, sid in op["out"]:
            words += [leaf, number(sid)]
    words += [has_frees, len(order), len(trace["storages"])]
    activations, retained = set(trace["activation_sids"]), set(trace["retained"])
    sids = list(order) + [int(s) for s in trace["storages"] if int(s) not in order]
    for sid in sids:
        words += [trace["storages"][str(sid)], trace.get("freed_before_op", {}).get(str(sid), NEVER),
                  (sid in activations) + 2 * (sid in retained)]
    data = b"".join((w & WORD).to_bytes(8, "little") for w in words)
    hash128 = xxhash.XXH3_128bits(data, len(data))
    return f"{hash128.high:016x}{hash128.low:016x}"


def main(tapedeck, traces):
    with tempfile.TemporaryDirectory() as folder:
        tape = Path(folder) / "step.tape"
        for trace in traces:
            subprocess.run([tapedeck, "import", trace, "-o", tape], check=True, stdout=subprocess.DEVNULL)
            export = subprocess.run([tapedeck, "export", tape, "--to", "interchange"], check=True, capture_output=True)
            assert read(tape) == json.loads(export.stdout), trace
            print("ok", Path(trace).name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
