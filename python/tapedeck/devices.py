"""Where copies run: the library's own threads for the CPU, PyTorch's streams for accelerators."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any

import torch

from . import library
from .library import call


class Device:
    """A td_device, closed with `close`."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()

    def close(self) -> None:
        if self.handle:
            library.load().td_device_close(self.handle)
            self.handle = ctypes.c_void_p()


class HostDevice(Device):
    """The CPU: main memory is the device and the host alike, and two threads copy."""

    def __init__(self) -> None:
        super().__init__()
        call("td_device_open", byref(self.handle), b"host", None)


class Accelerator(Device):
    """CUDA, XPU, NPU and their like through torch.accelerator: a stream for each direction, an event for each copy, pinned host memory.

    The allocator's rules are kept so: bytes are allocated on the computing stream, whose event each copy waits for before it begins; they
    are given back only when the copy's event has passed; and computing that reads what came back waits for its event.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device
        self._streams = [torch.Stream(device=device) for _ in range(2)]
        self._events: list[dict[int, Any]] = [{}, {}]
        self._tickets = [0, 0]
        self._pinned: dict[int, torch.Tensor] = {}
        self._calls = library.DeviceCalls(
            None,
            device.type.encode(),
            0,
            library.DeviceHostAlloc(self._host_alloc),
            library.DeviceHostFree(self._host_free),
            library.DeviceCopy(self._copy),
            library.DeviceTicket(self._passed),
            library.DeviceTicket(self._wait),
            library.DeviceTicket(self._join),
        )
        call("td_device_from_calls", byref(self.handle), byref(self._calls))

    def _computing(self) -> Any:
        return torch.accelerator.current_stream(self._device)

    def _host_alloc(self, _context: Any, size: int) -> int | None:
        try:
            memory = pinned(size)
        except RuntimeError:
            return None
        self._pinned[memory.data_ptr()] = memory
        return memory.data_ptr()

    def _host_free(self, _context: Any, memory: int, _size: int) -> None:
        self._pinned.pop(memory, None)

    def _copy(self, _context: Any, direction: int, to: int, source: int, size: int, after: int) -> bool:
        try:
            stream = self._streams[direction]
            stream.wait_stream(self._computing())
            other = self._events[1 - direction].get(after)
            if other is not None:
                stream.wait_event(other)
            places = [self._device, torch.device("cpu")] if direction else [torch.device("cpu"), self._device]
            with stream:
                view(to, size, places[0]).copy_(view(source, size, places[1]), non_blocking=True)
                event = torch.Event(device=self._device)
                event.record(stream)
        except RuntimeError:
            return False
        self._tickets[direction] += 1
        self._events[direction][self._tickets[direction]] = event
        return True

    def _passed(self, _context: Any, direction: int, ticket: int) -> bool:
        event = self._events[direction].get(ticket)
        if event is None:
            return True
        if not event.query():
            return False
        self._forget(direction, ticket)
        return True

    def _wait(self, _context: Any, direction: int, ticket: int) -> bool:
        event = self._events[direction].get(ticket)
        if event is not None:
            event.synchronize()
            self._forget(direction, ticket)
        return True

    def _join(self, _context: Any, direction: int, ticket: int) -> bool:
        event = self._events[direction].get(ticket)
        if event is not None:
            self._computing().wait_event(event)
        return True

    def _forget(self, direction: int, ticket: int) -> None:
        """Copies of a direction end in order, so all before it are done too."""
        for old in [t for t in self._events[direction] if t <= ticket]:
            del self._events[direction][old]


def pinned(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def view(address: int, size: int, device: torch.device) -> torch.Tensor:
    """Bytes at an address as a tensor that does not own them."""
    storage: Any = torch._C._construct_storage_from_data_pointer(address, device, size)
    tensor: Any = torch.empty(0, dtype=torch.uint8, device=device)
    return tensor.set_(storage, 0, [size])


def open_device(device: torch.device) -> Device:
    return HostDevice() if device.type == "cpu" else Accelerator(device)
