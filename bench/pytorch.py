"""What the PyTorch package costs an operator, beside a step without it: pytorch.py [--json FILE].

A GPT of small layers, forward and backward, so that operators are many and do little. Each figure is the median of what steps
take more than the plain ones they take turns with, divided by the operators that the tape counts; time is this
thread's processor time, so that others on the machine do not count. The alternative is a dispatch mode in Python that does nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python")]

import tapedeck  # noqa: E402
from models import GPT  # noqa: E402

STEPS = 41


class Idle(TorchDispatchMode):
    """A mode that does nothing: what any hook in Python pays."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def step_of() -> Callable[[], None]:
    torch.manual_seed(0)
    model = GPT(layers=6, width=16, length=8, words=16)
    tokens = torch.randint(16, (2, 8))

    def step() -> None:
        model(tokens).square().mean().backward()
        for parameter in model.parameters():
            parameter.grad = None

    return step


def timed(step: Callable[[], None], around: AbstractContextManager[Any]) -> float:
    with around:
        start = time.thread_time_ns()
        step()
        return time.thread_time_ns() - start


def overhead(step: Callable[[], None], around: Callable[[], AbstractContextManager[Any]], ops: int) -> float:
    """Nanoseconds an operator over a plain step. Steps take turns, so that a slower clock falls on both."""
    for _ in range(5):
        timed(step, around())
    pairs = [(timed(step, around()), timed(step, nullcontext())) for _ in range(STEPS)]
    return statistics.median(a - b for a, b in pairs) / ops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures to this file, after those that are there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    step, rows = step_of(), []
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/step.tape"
        with tapedeck.record(path) as recording:
            step()
        recording.close()
        info = tapedeck.open(path).info()
        ops = info["ops"]
        idle = overhead(step, Idle, ops)
        for hook in ("native", "python"):
            recording = tapedeck.record(f"{folder}/{hook}.tape", hook=hook)
            rows.append((f"PyTorch, recording, {hook} hook", overhead(step, lambda: recording, ops)))
            recording.close()
            replay = tapedeck.replay(f"{folder}/{hook}.tape", hook=hook, budget=info["peak_bytes"])
            rows.append((f"PyTorch, replaying, {hook} hook", overhead(step, lambda: replay, ops)))
            replay.close()
    against = "dispatch mode in Python that does nothing"
    found = [
        {"name": name, "unit": "ns/op", "ours": ours, "other": idle, "ratio": ours / idle, "against": against}
        for name, ours in rows
    ]
    for row in found:
        print(f"{row['name']:<44} {row['ours']:12.2f} {row['other']:12.2f} {row['ratio']:8.3f}  {row['unit']:<8} {against}")
    if options.json:
        file = Path(options.json)
        file.write_text(json.dumps((json.loads(file.read_text()) if file.exists() else []) + found, indent=2) + "\n")


if __name__ == "__main__":
    main()
