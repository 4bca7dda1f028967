"""Copies through PyTorch's streams, and the ways of the native hook that accelerators take; played on the CPU, since the order of calls is
what counts."""

from __future__ import annotations

from typing import Any

import pytest
import tapedeck
import torch
from tapedeck import devices, session
from test_torch_sessions import check, plain_step


class Stream:
    """Does at once what is queued, and notes what it was told to wait for."""

    made: list[Stream] = []

    def __init__(self, device: Any = None) -> None:
        self.waited: list[Any] = []
        self.entered = 0
        Stream.made.append(self)

    def wait_stream(self, other: Stream) -> None:
        self.waited.append(other)

    def wait_event(self, event: Event) -> None:
        assert event.stream is not None, "an event that was never recorded"
        self.waited.append(event)

    def __enter__(self) -> None:
        self.entered += 1

    def __exit__(self, *_: Any) -> None: ...


class Event:
    """Passes when it was asked for the third time, or waited for."""

    def __init__(self, device: Any = None) -> None:
        self.stream: Stream | None = None
        self.asked = 0

    def record(self, stream: Stream) -> None:
        self.stream = stream

    def query(self) -> bool:
        self.asked += 1
        return self.asked > 2

    def synchronize(self) -> None:
        self.asked = 3


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    computing = Stream()
    Stream.made = []
    monkeypatch.setattr(torch, "Stream", Stream)
    monkeypatch.setattr(torch, "Event", Event)
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda _device: computing)
    monkeypatch.setattr(devices, "pinned", lambda size: torch.empty(size, dtype=torch.uint8))
    monkeypatch.setattr(session, "open_device", devices.Accelerator)
    monkeypatch.setattr(session, "_WRAPPED", set())
    return [computing, *Stream.made]


def test_a_session_on_streams(hook: str, tape: str, streams: list[Stream]) -> None:
    reports = check(plain_step, hook, tape)
    assert all(report.d2h_bytes for report in reports)
    out, back = Stream.made
    computing = streams[0]
    assert out.entered and back.entered
    assert out.waited.count(computing) == out.entered and back.waited.count(computing) == back.entered
    assert any(
        isinstance(event, Event) and event.stream is back for event in computing.waited
    )  # who reads waits for what comes back


def test_a_copy_back_waits_for_the_way_out(streams: list[Stream]) -> None:
    device = devices.Accelerator(torch.device("cpu"))
    there, here = torch.arange(100, dtype=torch.uint8), torch.zeros(100, dtype=torch.uint8)
    assert device._copy(None, 0, here.data_ptr(), there.data_ptr(), 100, 0)
    assert torch.equal(there, here)
    there.zero_()
    assert device._copy(None, 1, there.data_ptr(), here.data_ptr(), 100, 1)
    assert torch.equal(there, here)
    out, back = Stream.made
    assert [event.stream for event in back.waited if isinstance(event, Event)] == [out]
    assert not device._passed(None, 0, 1) and device._wait(None, 0, 1) and device._passed(None, 0, 1)
    device.close()


def test_reading_on_streams(hook: str, tape: str, streams: list[Stream]) -> None:
    from test_torch_reading import EXPECTED, SIZE, away

    with tapedeck.record(tape, hook=hook, budget=SIZE * 4 * 3) as step:
        tensor = away()
        assert (tensor.numpy() == EXPECTED).all()
        tensor = step.restore(away())
        assert (tensor.sin() == torch.tensor(EXPECTED).sin()).all()


@pytest.mark.parametrize("case", ["ends", "resized"])
def test_storages_without_a_deleter_of_ours(tape: str, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    from test_torch_storages import Seen

    monkeypatch.setattr(session, "_WRAPPED", set())

    def step() -> None:
        y = torch.ones(4).exp()
        if case == "resized":
            y.resize_(4000).fill_(1)
        del y
        torch.zeros(1)

    with tapedeck.record(tape, hook="native") as recording:
        step()
    recording.close()
    seen = Seen(tape)
    last = seen.writes(len(seen.names) - 2)[0]
    assert seen.storages[last]["bytes"] == (16000 if case == "resized" else 16)
    assert seen.storages[last]["freed_before_op"] == seen.op("aten.zeros.default")


def test_the_device_that_is_traced(tape: str) -> None:
    assert tapedeck.record(tape).traced == torch.device("cpu")
    assert tapedeck.record(tape, model=torch.nn.Linear(1, 1)).traced == torch.device("cpu")
