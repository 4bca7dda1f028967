"""libtapedeck through ctypes: the declarations of include/tapedeck that the package uses."""

from __future__ import annotations

import ctypes
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any

from .errors import FileError, error_of

NEWEST = 0
MEASURE = 2**64 - 1
NEVER = 2**64 - 1
LIMIT_OF_SCHEDULE = 2**64 - 1


class Error(Structure):
    _fields_ = [("status", c_int), ("message", c_char * 508)]


class Meta(Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class ShardingPlace(Structure):
    _fields_ = [
        ("plan", c_char_p),
        ("digest", c_char_p),
        ("world_size", c_uint64),
        ("rank", c_uint64),
        ("n_mesh", c_size_t),
        ("mesh_shape", POINTER(c_uint64)),
        ("mesh_coords", POINTER(c_uint64)),
    ]


class RecorderOptions(Structure):
    _fields_ = [
        ("path", c_char_p),
        ("meta", POINTER(Meta)),
        ("n_meta", c_size_t),
        ("device", c_void_p),
        ("limit_bytes", c_uint64),
        ("measure_link", c_bool),
        ("zstd_level", c_int),
        ("sharding", POINTER(ShardingPlace)),
    ]


class ReplayerOptions(Structure):
    _fields_ = [
        ("path", c_char_p),
        ("trace", c_int64),
        ("schedule", c_int64),
        ("device", c_void_p),
        ("policy", c_int),
        ("limit_bytes", c_uint64),
        ("window", c_uint),
        ("sharding", POINTER(ShardingPlace)),
    ]


class SessionOptions(Structure):
    _fields_ = [
        ("path", c_char_p),
        ("meta", POINTER(Meta)),
        ("n_meta", c_size_t),
        ("resume", c_bool),
        ("device", c_void_p),
        ("budget_bytes", c_uint64),
        ("d2h_bytes_per_s", c_double),
        ("h2d_bytes_per_s", c_double),
        ("planner", c_char_p),
        ("policy", c_int),
        ("window", c_uint),
        ("max_variants", c_uint),
        ("max_warmups", c_uint),
        ("sharding", POINTER(ShardingPlace)),
    ]


class PlanOptions(Structure):
    _fields_ = [
        ("budget_bytes", c_uint64),
        ("host_bytes", c_uint64),
        ("host_limited", c_bool),
        ("d2h_bytes_per_s", c_double),
        ("h2d_bytes_per_s", c_double),
        ("d2h_latency_ns", c_uint64),
        ("h2d_latency_ns", c_uint64),
        ("planner", c_char_p),
        ("align_bytes", c_uint64),
        ("keep", POINTER(c_uint64)),
        ("n_keep", c_size_t),
        ("move_found", c_bool),
        ("effort", c_uint32),
        ("early", c_bool),
    ]


class DeviceOptions(Structure):
    _fields_ = [("capacity_bytes", c_uint64), ("d2h_bytes_per_s", c_double), ("h2d_bytes_per_s", c_double)]


DeviceHostAlloc = CFUNCTYPE(c_void_p, c_void_p, c_size_t)
DeviceHostFree = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t)
DeviceCopy = CFUNCTYPE(c_bool, c_void_p, c_int, c_void_p, c_void_p, c_uint64, c_uint64)
DeviceTicket = CFUNCTYPE(c_bool, c_void_p, c_int, c_uint64)


class DeviceCalls(Structure):
    _fields_ = [
        ("context", c_void_p),
        ("name", c_char_p),
        ("capacity_bytes", c_uint64),
        ("host_alloc", DeviceHostAlloc),
        ("host_free", DeviceHostFree),
        ("copy", DeviceCopy),
        ("passed", DeviceTicket),
        ("wait", DeviceTicket),
        ("join", DeviceTicket),
    ]


MemoryAlloc = CFUNCTYPE(c_bool, c_void_p, c_uint64, c_uint64)
MemoryFree = CFUNCTYPE(None, c_void_p, c_uint64, c_uint64)
MemoryPointer = CFUNCTYPE(c_void_p, c_void_p, c_uint64)
MemoryHold = CFUNCTYPE(None, c_void_p, c_uint64)
MemoryDrop = CFUNCTYPE(c_bool, c_void_p, c_uint64)


class Memory(Structure):
    _fields_ = [
        ("context", c_void_p),
        ("alloc", MemoryAlloc),
        ("free", MemoryFree),
        ("pointer", MemoryPointer),
        ("hold", MemoryHold),
        ("drop", MemoryDrop),
    ]


class Storage(Structure):
    _fields_ = [("id", c_uint64)]


class Region(Structure):
    _fields_ = [("id", c_uint32)]


class StepStats(Structure):
    _fields_ = [
        ("ops", c_uint64),
        ("peak_bytes", c_uint64),
        ("host_peak_bytes", c_uint64),
        ("d2h_bytes", c_uint64),
        ("h2d_bytes", c_uint64),
        ("stall_ns", c_uint64),
        ("demand_faults", c_uint64),
        ("late_prefetches", c_uint64),
        ("diverged_ops", c_uint64),
        ("step_ns", c_uint64),
        ("trace", c_int64),
        ("schedule", c_int64),
        ("replayed", c_bool),
    ]


class Name(Structure):
    _fields_ = [("bytes", c_void_p), ("length", c_size_t)]


class Op(Structure):
    _fields_ = [
        ("dur_ns", c_uint64),
        ("leaves", c_uint64),
        ("first_access", c_uint64),
        ("first_output", c_uint64),
        ("name", c_uint32),
        ("opaque", c_bool),
    ]


class Access(Structure):
    _fields_ = [("storage", c_uint32), ("kind", c_uint32)]


class Output(Structure):
    _fields_ = [("leaf", c_uint64), ("storage", c_uint32)]


class StorageInfo(Structure):
    _fields_ = [
        ("sid", c_uint64),
        ("bytes", c_uint64),
        ("freed_before_op", c_uint64),
        ("activation", c_bool),
        ("retained", c_bool),
    ]


class Mark(Structure):
    _fields_ = [("name", c_uint32), ("op", c_uint64)]


class Trace(Structure):
    _fields_ = [
        ("n_ops", c_uint64),
        ("n_accesses", c_uint64),
        ("n_outputs", c_uint64),
        ("n_names", c_uint32),
        ("n_storages", c_uint32),
        ("n_activations", c_uint32),
        ("n_retained", c_uint32),
        ("n_marks", c_uint32),
        ("complete", c_bool),
        ("has_frees", c_bool),
        ("ops", POINTER(Op)),
        ("accesses", POINTER(Access)),
        ("outputs", POINTER(Output)),
        ("names", POINTER(Name)),
        ("storages", POINTER(StorageInfo)),
        ("activations", POINTER(c_uint32)),
        ("retained", POINTER(c_uint32)),
        ("marks", POINTER(Mark)),
    ]


class Action(Structure):
    _fields_ = [("op", c_uint64), ("sid", c_uint64), ("phase", c_uint8), ("kind", c_uint8)]


class Schedule(Structure):
    _fields_ = [
        ("id", c_int64),
        ("planner", c_char_p),
        ("memory_limit_bytes", c_uint64),
        ("host_limit_bytes", c_uint64),
        ("d2h_bytes_per_s", c_double),
        ("h2d_bytes_per_s", c_double),
        ("early", c_bool),
        ("extra", c_char_p),
        ("n_actions", c_size_t),
        ("actions", POINTER(Action)),
    ]


class TraceInfo(Structure):
    _fields_ = [
        ("trace", c_int64),
        ("complete", c_bool),
        *[(name, c_uint64) for name in ("ops", "accesses", "outputs", "storages", "activations", "retained")],
        *[
            (name, c_uint64)
            for name in ("compute_ns", "activation_bytes", "retained_bytes", "other_bytes", "peak_bytes", "floor_bytes")
        ],
        ("digest", c_char * 33),
    ]


class Value(Structure):
    _fields_ = [("type", c_int), ("integer", c_int64), ("real", c_double), ("bytes", c_void_p), ("length", c_size_t)]


SqlRow = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_char_p), POINTER(Value))

_err = POINTER(Error)
_deck = c_void_p

# name -> (result, arguments)
_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "td_version": (c_char_p, []),
    "td_device_open": (c_int, [POINTER(c_void_p), c_char_p, POINTER(DeviceOptions), _err]),
    "td_device_from_calls": (c_int, [POINTER(c_void_p), POINTER(DeviceCalls), _err]),
    "td_device_close": (None, [c_void_p]),
    "td_recorder_create": (c_int, [POINTER(_deck), POINTER(RecorderOptions), _err]),
    "td_recorder_digest": (c_char_p, [_deck]),
    "td_session_create": (c_int, [POINTER(_deck), POINTER(SessionOptions), _err]),
    "td_replayer_create": (c_int, [POINTER(_deck), POINTER(ReplayerOptions), _err]),
    "td_replayer_divergence": (c_char_p, [_deck]),
    "td_deck_destroy": (None, [_deck]),
    "td_deck_error": (POINTER(Error), [_deck]),
    "td_deck_stats": (None, [_deck, POINTER(StepStats)]),
    "td_deck_set_memory": (c_int, [_deck, POINTER(Memory)]),
    "td_step_begin": (c_int, [_deck]),
    "td_step_end": (c_int, [_deck]),
    "td_step_abort": (c_int, [_deck]),
    "td_step_mark": (c_int, [_deck, c_char_p]),
    "td_in_step": (c_bool, [_deck]),
    "td_op_number": (c_int64, [_deck]),
    "td_op_begin": (c_int, [_deck, c_char_p]),
    "td_op_run": (c_int, [_deck]),
    "td_op_end": (c_int, [_deck, c_uint64]),
    "td_op_abort": (c_int, [_deck]),
    "td_read": (c_int, [_deck, Storage]),
    "td_write": (c_int, [_deck, Storage]),
    "td_output": (c_int, [_deck, c_uint64, Storage]),
    "td_leaves": (c_int, [_deck, c_uint64]),
    "td_region_begin": (c_int, [_deck, c_char_p, POINTER(Region)]),
    "td_region_end": (c_int, [_deck, Region]),
    "td_region_backward_begin": (c_int, [_deck, Region]),
    "td_region_backward_end": (c_int, [_deck, Region]),
    "td_region_abort": (c_int, [_deck, Region]),
    "td_storage_born": (c_int, [_deck, c_uint64, c_uint64, POINTER(Storage)]),
    "td_storage_adopt": (c_int, [_deck, c_uint64, c_uint64, POINTER(Storage)]),
    "td_storage_restore": (c_int, [_deck, Storage]),
    "td_storage_resized": (c_int, [_deck, Storage, c_uint64]),
    "td_storage_freed": (c_int, [_deck, Storage]),
    "td_tape_open": (c_int, [POINTER(c_void_p), c_char_p, _err]),
    "td_tape_close": (None, [c_void_p]),
    "td_tape_trace_count": (c_int, [c_void_p, POINTER(c_int64), _err]),
    "td_tape_info": (c_int, [c_void_p, c_int64, POINTER(TraceInfo), _err]),
    "td_tape_load_trace": (c_int, [c_void_p, c_int64, POINTER(POINTER(Trace)), _err]),
    "td_trace_destroy": (None, [POINTER(Trace)]),
    "td_tape_schedules": (c_int, [c_void_p, c_int64, POINTER(POINTER(c_int64)), POINTER(c_size_t), _err]),
    "td_tape_load_schedule": (c_int, [c_void_p, c_int64, c_int64, POINTER(POINTER(Schedule)), _err]),
    "td_schedule_destroy": (None, [POINTER(Schedule)]),
    "td_tape_add_schedule": (c_int, [c_char_p, c_int64, POINTER(Schedule), _err]),
    "td_tape_set_meta": (c_int, [c_char_p, c_int64, c_char_p, c_char_p, _err]),
    "td_tape_sql": (c_int, [c_void_p, c_char_p, SqlRow, c_void_p, _err]),
    "td_plan": (c_int, [POINTER(Trace), POINTER(PlanOptions), POINTER(POINTER(Schedule)), c_void_p, _err]),
    "td_parse_size": (c_int, [c_char_p, c_uint64, POINTER(c_uint64), _err]),
    "td_parse_rate": (c_int, [c_char_p, POINTER(c_double), _err]),
    "td_sharding_freeze": (c_int, [c_char_p, POINTER(c_void_p), _err]),
    "td_sharding_thaw": (c_int, [c_char_p, POINTER(c_void_p), _err]),
}


def library_path() -> Path:
    """Where libtapedeck is: $TAPEDECK_LIBRARY, beside the package (in a wheel), or the release build of a checkout."""
    named = os.environ.get("TAPEDECK_LIBRARY")
    if named:
        return Path(named).resolve()
    here = Path(__file__).resolve().parent
    for folder in (here / "lib", here.parents[1] / "build" / "release"):
        for name in ("libtapedeck.so.0", "libtapedeck.so", "libtapedeck.dylib"):
            if (folder / name).exists():
                return (folder / name).resolve()
    raise FileError(
        "libtapedeck is not there: install the package with pip, build it with './run build', or name it in TAPEDECK_LIBRARY"
    )


@cache
def load() -> ctypes.CDLL:
    """The library, loaded on first use."""
    path = library_path()
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as error:
        raise FileError(f"{path} cannot be loaded: {error}") from error
    for name, (result, arguments) in _CALLS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def call(name: str, *arguments: Any) -> None:
    """Calls a function that takes an error as its last argument, and raises what it reports."""
    error = Error()
    if getattr(load(), name)(*arguments, byref(error)):
        raise error_of(error.status, error.message.decode(errors="replace"))


def free(pointer: Any) -> None:
    """Frees what the library allocated for its caller."""
    release = ctypes.CDLL(None).free
    release.argtypes, release.restype = [c_void_p], None
    release(ctypes.cast(pointer, c_void_p))


def parse_size(text: int | str, whole: int = 0) -> int:
    """4096, "4GiB", or "60%" of `whole`."""
    if isinstance(text, int):
        return text
    size = c_uint64()
    call("td_parse_size", text.encode(), whole, byref(size))
    return size.value


def parse_rate(text: float | str) -> float:
    """Bytes a second, as a number or "16GiB"."""
    if isinstance(text, (int, float)):
        return float(text)
    rate = c_double()
    call("td_parse_rate", text.encode(), byref(rate))
    return rate.value


def version() -> str:
    return load().td_version().decode()
