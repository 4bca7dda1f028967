"""Tapedeck records one training step, plans which activations to copy to host memory and back, and replays that in every later step.

    session = tapedeck.Session("step.tape", budget="4GiB")
    for x in batches:
        with session:
            loss = model(x)
            loss.backward()
        optimizer.step()

Reading a tape needs no PyTorch: `tapedeck.open(path)` gives ops, accesses and storages as NumPy arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import (
    ArgumentError,
    BudgetError,
    DamagedError,
    DeviceError,
    DivergedError,
    FileError,
    FormatError,
    InputError,
    NotFoundError,
    OutOfMemory,
    StateError,
    TapedeckError,
    VersionError,
)
from .library import version
from .sharding import freeze_plan, plan_from_dtensor
from .tape import Tape, Trace, open

if TYPE_CHECKING:
    from .regions import skip_offload
    from .session import Recording, Replay, Report, Session, active, model_key, record, replay

# What needs PyTorch comes with first use.
_OF_TORCH = {
    "skip_offload": "regions",
    **dict.fromkeys(("Recording", "Replay", "Report", "Session", "active", "model_key", "record", "replay"), "session"),
}

__all__ = [
    "ArgumentError", "BudgetError", "DamagedError", "DeviceError", "DivergedError", "FileError", "FormatError", "InputError",
    "NotFoundError", "OutOfMemory", "Recording", "Replay", "Report", "Session", "StateError", "Tape", "TapedeckError", "Trace",
    "VersionError", "active", "freeze_plan", "model_key", "open", "plan_from_dtensor", "record", "replay", "skip_offload", "version",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _OF_TORCH:
        raise AttributeError(f"module 'tapedeck' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_OF_TORCH[name]}", __name__), name)
