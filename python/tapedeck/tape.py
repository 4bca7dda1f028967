"""Tapes as NumPy arrays. Needs no PyTorch."""

from __future__ import annotations

import ctypes
import json
import os
from ctypes import POINTER, byref
from typing import Any

import numpy as np

from . import library
from .library import call

OP = np.dtype(
    {
        "names": ["dur_ns", "leaves", "first_access", "first_output", "name", "opaque"],
        "formats": ["u8", "u8", "u8", "u8", "u4", "?"],
        "offsets": [
            getattr(library.Op, n).offset for n in ("dur_ns", "leaves", "first_access", "first_output", "name", "opaque")
        ],
        "itemsize": ctypes.sizeof(library.Op),
    }
)
STORAGE = np.dtype(
    {
        "names": ["sid", "bytes", "freed_before_op", "activation", "retained"],
        "formats": ["u8", "u8", "u8", "?", "?"],
        "offsets": [
            getattr(library.StorageInfo, n).offset for n in ("sid", "bytes", "freed_before_op", "activation", "retained")
        ],
        "itemsize": ctypes.sizeof(library.StorageInfo),
    }
)
_ACCESS = np.dtype([("storage", "u4"), ("kind", "u4")])
_OUTPUT = np.dtype(
    {"names": ["leaf", "storage"], "formats": ["u8", "u4"], "offsets": [0, 8], "itemsize": ctypes.sizeof(library.Output)}
)
ACTION = np.dtype(
    {
        "names": ["op", "sid", "phase", "kind"],
        "formats": ["u8", "u8", "u1", "u1"],
        "offsets": [0, 8, 16, 17],
        "itemsize": ctypes.sizeof(library.Action),
    }
)
ACCESS = np.dtype([("op", "u8"), ("sid", "u8"), ("write", "?")])
OUTPUT = np.dtype([("op", "u8"), ("leaf", "u8"), ("sid", "u8")])


def _copied(pointer: Any, count: int, dtype: np.dtype) -> np.ndarray:
    """An array of its own, since the C arrays go with the trace."""
    if not count:
        return np.empty(0, dtype)
    size = count * dtype.itemsize
    return np.frombuffer(ctypes.string_at(pointer, size), dtype)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


class Trace:
    """One recorded step.

    `ops`: dur_ns, leaves, name (an index into `names`), opaque.
    `accesses`: op, sid, write. `outputs`: op, leaf, sid.
    `storages`: sid, bytes, freed_before_op (2**64 - 1: not seen), activation, retained.
    `marks`: a list of (name, op).
    """

    ops: np.ndarray
    accesses: np.ndarray
    outputs: np.ndarray
    storages: np.ndarray
    names: list[str]
    marks: list[tuple[str, int]]
    complete: bool
    has_frees: bool

    def __init__(self, raw: library.Trace) -> None:
        n = raw.n_ops
        ops = _copied(raw.ops, n + 1, OP)
        self.ops = ops[:n]
        self.storages = _copied(raw.storages, raw.n_storages, STORAGE)
        self.names = [_text(ctypes.string_at(raw.names[i].bytes, raw.names[i].length)) for i in range(raw.n_names)]
        self.marks = [(self.names[raw.marks[i].name], raw.marks[i].op) for i in range(raw.n_marks)]
        self.complete, self.has_frees = raw.complete, raw.has_frees
        accesses = _copied(raw.accesses, raw.n_accesses, _ACCESS)
        outputs = _copied(raw.outputs, raw.n_outputs, _OUTPUT)
        sids = self.storages["sid"]
        self.accesses = np.empty(raw.n_accesses, ACCESS)
        self.accesses["op"] = np.repeat(np.arange(n), np.diff(ops["first_access"]).astype(np.int64))
        self.accesses["sid"], self.accesses["write"] = sids[accesses["storage"]], accesses["kind"] == 1
        self.outputs = np.empty(raw.n_outputs, OUTPUT)
        self.outputs["op"] = np.repeat(np.arange(n), np.diff(ops["first_output"]).astype(np.int64))
        self.outputs["leaf"], self.outputs["sid"] = outputs["leaf"], sids[outputs["storage"]]

    def op_names(self) -> list[str]:
        """The name of each op."""
        return [self.names[i] for i in self.ops["name"]]

    def __repr__(self) -> str:
        return f"<Trace of {len(self.ops)} ops, {len(self.accesses)} accesses, {len(self.storages)} storages>"


class Tape:
    """An open tape. The arrays of its newest trace are its own: `tape.ops`, `tape.accesses`, `tape.storages`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._handle = ctypes.c_void_p()
        call("td_tape_open", byref(self._handle), os.fsencode(path))
        self._traces: dict[int, Trace] = {}

    def close(self) -> None:
        if self._handle:
            library.load().td_tape_close(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def __len__(self) -> int:
        """The number of traces."""
        count = ctypes.c_int64()
        call("td_tape_trace_count", self._handle, byref(count))
        return count.value

    def trace(self, number: int = library.NEWEST) -> Trace:
        """A trace by its number, from 1; the newest without one."""
        if number not in self._traces:
            raw = POINTER(library.Trace)()
            call("td_tape_load_trace", self._handle, number, byref(raw))
            try:
                self._traces[number] = Trace(raw.contents)
            finally:
                library.load().td_trace_destroy(raw)
        return self._traces[number]

    @property
    def ops(self) -> np.ndarray:
        return self.trace().ops

    @property
    def accesses(self) -> np.ndarray:
        return self.trace().accesses

    @property
    def outputs(self) -> np.ndarray:
        return self.trace().outputs

    @property
    def storages(self) -> np.ndarray:
        return self.trace().storages

    @property
    def names(self) -> list[str]:
        return self.trace().names

    def info(self, number: int = library.NEWEST) -> dict[str, Any]:
        """What can be told of a trace without reading it: ops, peak_bytes, floor_bytes, digest and more."""
        raw = library.TraceInfo()
        call("td_tape_info", self._handle, number, byref(raw))
        info = {name: getattr(raw, name) for name, *_ in raw._fields_}
        info["digest"] = raw.digest.decode()
        return info

    def schedules(self, number: int = library.NEWEST) -> list[dict[str, Any]]:
        """The schedules of a trace in the order they were made; `actions` is an array of op, sid, phase (1: post) and kind
        (0 COPY_D2H, 1 COPY_H2D, 2 RELEASE_DEVICE, 3 RELEASE_HOST)."""
        ids, count = POINTER(ctypes.c_int64)(), ctypes.c_size_t()
        call("td_tape_schedules", self._handle, number, byref(ids), byref(count))
        numbers = [ids[i] for i in range(count.value)]
        library.free(ids)
        return [self._schedule(number, schedule) for schedule in numbers]

    def _schedule(self, number: int, schedule: int) -> dict[str, Any]:
        raw = POINTER(library.Schedule)()
        call("td_tape_load_schedule", self._handle, number, schedule, byref(raw))
        try:
            s = raw.contents
            return {
                "id": s.id,
                "planner": _text(s.planner or b""),
                "memory_limit_bytes": s.memory_limit_bytes,
                "host_limit_bytes": None if s.host_limit_bytes == library.NEVER else s.host_limit_bytes,
                "d2h_bytes_per_s": s.d2h_bytes_per_s,
                "h2d_bytes_per_s": s.h2d_bytes_per_s,
                "early": s.early,
                "actions": _copied(s.actions, s.n_actions, ACTION),
            }
        finally:
            library.load().td_schedule_destroy(raw)

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query; docs/sql.md has the tables."""
        rows: list[tuple[Any, ...]] = []

        def row(_context: Any, n: int, _names: Any, values: Any) -> int:
            rows.append(tuple(_value(values[i]) for i in range(n)))
            return 0

        call("td_tape_sql", self._handle, query.encode(), library.SqlRow(row), None)
        return rows

    def meta(self) -> dict[str, Any]:
        """What was noted in the newest trace, such as the hook and the model key."""
        found = {}
        for key, value in self.sql("SELECT key, value FROM meta"):
            try:
                found[key] = json.loads(value)
            except (TypeError, ValueError):
                found[key] = value
        return found

    def __repr__(self) -> str:
        return f"<Tape {self.path!r}>"


def _value(value: library.Value) -> Any:
    if value.type == 0:
        return None
    if value.type == 1:
        return value.integer
    if value.type == 2:
        return value.real
    raw = ctypes.string_at(value.bytes, value.length) if value.length else b""
    return _text(raw) if value.type == 3 else raw


def open(path: str | os.PathLike[str]) -> Tape:  # noqa: A001 - tapedeck.open reads as it should
    """Opens a tape for reading."""
    return Tape(path)
