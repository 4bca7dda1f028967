"""The declarations of library.py are those of the headers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from tapedeck import library

ROOT = Path(__file__).resolve().parents[2]

STRUCTS = {
    "Error": "td_error", "ShardingPlace": "td_sharding_place", "Meta": "td_meta", "RecorderOptions": "td_recorder_options", "ReplayerOptions": "td_replayer_options",
    "SessionOptions": "td_session_options", "PlanOptions": "td_plan_options", "DeviceOptions": "td_device_options",
    "DeviceCalls": "td_device_calls", "Memory": "td_memory", "Storage": "td_storage", "Region": "td_region", "StepStats": "td_step_stats",
    "Name": "td_name", "Op": "td_op", "Access": "td_access", "Output": "td_output_binding", "StorageInfo": "td_storage_info",
    "Mark": "td_mark", "Trace": "td_trace", "Action": "td_action", "Schedule": "td_schedule", "TraceInfo": "td_trace_info", "Value": "td_value",
}  # fmt: skip


def test_structures_lie_as_in_c(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    lines = [
        "#include <stddef.h>",
        *(f"#include <tapedeck/{header.name}>" for header in sorted((ROOT / "include" / "tapedeck").glob("*.h"))),
    ]
    for name, c_name in STRUCTS.items():
        struct = getattr(library, name)
        lines.append(f'_Static_assert(sizeof({c_name}) == {ctypes.sizeof(struct)}, "{c_name}");')
        for field, *_ in struct._fields_:
            lines.append(f'_Static_assert(offsetof({c_name}, {field}) == {getattr(struct, field).offset}, "{c_name}.{field}");')
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [compiler, "-std=c17", f"-I{ROOT / 'include'}", "-fsyntax-only", str(source)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_structure_is_compared() -> None:
    declared = {
        name
        for name, value in vars(library).items()
        if isinstance(value, type) and issubclass(value, ctypes.Structure) and value is not ctypes.Structure
    }
    assert declared == set(STRUCTS)


def test_every_call_is_there() -> None:
    for name in library._CALLS:
        assert hasattr(library.load(), name)
