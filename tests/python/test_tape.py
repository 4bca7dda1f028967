"""Tapes as NumPy arrays, without PyTorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tapedeck

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "release" / "tapedeck"
FIXTURE = ROOT / "tests" / "fixtures" / "four_layers.json"


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    path = tmp_path / "step.tape"
    subprocess.run([PROGRAM, "import", FIXTURE, "-o", path], check=True, capture_output=True)
    return path


def test_arrays_say_what_sql_says(tape: Path) -> None:
    with tapedeck.open(tape) as opened:
        trace = opened.trace()
        assert opened.sql("SELECT name, dur_ns, leaves FROM op ORDER BY op") == list(
            zip(trace.op_names(), trace.ops["dur_ns"].tolist(), trace.ops["leaves"].tolist())
        )
        accesses = [(a["op"], a["sid"], "W" if a["write"] else "R") for a in opened.accesses]
        assert opened.sql("SELECT op, sid, kind FROM access ORDER BY op, seq") == accesses
        assert opened.sql("SELECT op, leaf, sid FROM output ORDER BY op, leaf") == [tuple(o) for o in opened.outputs.tolist()]
        storages = {int(s["sid"]): (int(s["bytes"]), bool(s["activation"]), bool(s["retained"])) for s in opened.storages}
        assert storages == {
            sid: (size, bool(a), bool(r))
            for sid, size, a, r in opened.sql("SELECT sid, bytes, activation, retained FROM storage")
        }
        info = opened.info()
        assert info["ops"] == len(opened.ops) and info["storages"] == len(opened.storages) and len(info["digest"]) == 32


def test_arrays_outlive_the_tape(tape: Path) -> None:
    with tapedeck.open(tape) as opened:
        ops = opened.ops
    opened.close()
    assert int(ops["dur_ns"].sum()) >= 0 and isinstance(ops, np.ndarray)


def test_schedules(tape: Path) -> None:
    with tapedeck.open(tape) as opened:
        before = len(opened.schedules())
    subprocess.run([PROGRAM, "plan", tape, "--budget", "80%"], check=True, capture_output=True)
    with tapedeck.open(tape) as opened:
        schedule = opened.schedules()[-1]
        assert len(opened.schedules()) == before + 1
        assert schedule["memory_limit_bytes"] == opened.info()["peak_bytes"] * 8 // 10
        assert set(schedule["actions"]["kind"].tolist()) <= {0, 1, 2, 3}


def test_what_is_no_tape(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    with pytest.raises(tapedeck.FormatError, match="is not a tape"):
        tapedeck.open(tmp_path / "text")
    with pytest.raises(OSError):
        tapedeck.open(tmp_path / "absent")


def test_what_is_not_there(tape: Path) -> None:
    with tapedeck.open(tape) as opened:
        with pytest.raises(tapedeck.NotFoundError):
            opened.trace(7)
        with pytest.raises(tapedeck.ArgumentError):
            opened.sql("SELEC")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tapedeck.nothing


def test_it_imports_without_pytorch() -> None:
    code = f"import sys; sys.modules['torch'] = None; sys.path.insert(0, {str(ROOT / 'python')!r}); import tapedeck; print(tapedeck.version())"
    assert (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
        == tapedeck.version()
    )
