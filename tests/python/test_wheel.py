"""The wheel: whole by itself, with no PyTorch and none of the libraries there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]

READS_A_TAPE = """
import sys
sys.path[:0] = sys.argv[1:3]
sys.modules["torch"] = None  # there is none
import tapedeck
assert tapedeck.__file__.startswith(sys.argv[1]), tapedeck.__file__
try:
    tapedeck.open(sys.argv[3])
except tapedeck.FormatError as error:
    assert "is not a tape" in str(error)
try:
    tapedeck.Session
except ImportError as error:
    assert "torch" in str(error)
for line in open("/proc/self/maps"):
    path = line.split()[-1]
    if any(name in path for name in ("libtapedeck", "libcjson", "libzstd", "libsqlite3")):
        assert path.startswith(sys.argv[1]), path
print(tapedeck.version())
"""


def run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_carries_all_that_it_needs(tmp_path: Path) -> None:
    for tool in ("scikit_build_core", "auditwheel"):
        pytest.importorskip(tool)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path / "raw"),
        str(ROOT / "python"),
    )
    (raw,) = (tmp_path / "raw").glob("tapedeck-*.whl")
    run(sys.executable, "-m", "auditwheel", "repair", "-w", str(tmp_path / "repaired"), str(raw))
    (wheel,) = (tmp_path / "repaired").glob("tapedeck-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "text.tape").write_text("no tape")
    numpy_path = str(Path(numpy.__file__).parents[1])
    assert run(sys.executable, "-I", "-c", READS_A_TAPE, str(tmp_path / "site"), numpy_path, str(tmp_path / "text.tape")).strip()
    for name in ("py.typed", "hook/native.cpp", "include/tapedeck/deck.h"):
        assert (tmp_path / "site" / "tapedeck" / name).exists()
