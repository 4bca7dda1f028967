"""The Python hook: a TorchDispatchMode that tells a deck what each operator touches, where there is no C++ compiler.

It does what hook/hook.h does, call for call. A storage is PyTorch's StorageImpl, whose UntypedStorage lives as long as it does;
a weak reference to that tells of its end. The bytes of an activation leave by swapping them for an empty storage that refuses to be
read, and come back by swapping fresh ones in.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from ctypes import byref
from typing import Any, Callable, Iterable, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import library
from .errors import error_of
from .operators import ASYNCHRONOUS, SILENT_WRITES, SKIPPED

_storage_of = torch._C.TensorBase.untyped_storage  # session patches the one of torch.Tensor


class _Entry:
    """A storage that the deck knows, or one that was made inside an opaque region, which it does not (`handle` is None)."""

    __slots__ = ("key", "address", "storage", "handle", "size", "adopted", "present", "ended", "held", "holds", "__weakref__")

    def __init__(self, key: int, storage: torch.UntypedStorage) -> None:
        self.key = key
        self.address = storage._cdata
        self.storage: Callable[[], Any]  # a weak reference to the UntypedStorage
        self.handle: library.Storage | None = None
        self.size = storage.nbytes()
        self.adopted = False
        self.present = True
        self.ended = False
        self.held: Any = None  # while a copy uses the bytes
        self.holds = 0


class _Operator:
    """What is known of an operator, once for each."""

    __slots__ = ("name", "returns", "positions", "keywords", "skipped", "asynchronous", "silent")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name = str(func).encode()
        self.returns = len(schema.returns)
        self.skipped = schema.name.split("::")[0] in SKIPPED
        self.asynchronous = schema.name.split("::")[0] in ASYNCHRONOUS
        self.silent = ([], -1) if schema.overload_name else SILENT_WRITES.get(schema.name, ([], -1))
        self.positions: list[bool] = []
        self.keywords: dict[str, bool] = {}
        for argument in schema.arguments:
            written = argument.alias_info is not None and argument.alias_info.is_write
            self.keywords[argument.name] = written
            if not argument.kwarg_only:
                self.positions.append(written)

    def writes(self, index: int, args: Sequence[Any]) -> bool:
        if index in self.silent[0]:
            when = self.silent[1]
            return when < 0 or when >= len(args) or bool(args[when])
        return index < len(self.positions) and self.positions[index]


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _leaves(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """A sparse tensor has no storage, but is made of tensors that have."""
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


class _Mode(TorchDispatchMode):
    def __init__(self, hook: Hook) -> None:
        super().__init__()
        self.hook = hook

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.hook.run(func, args, kwargs or {})


class Hook:
    def __init__(self, deck: int, device: torch.device) -> None:
        self._lib = library.load()
        self._deck = ctypes.c_void_p(deck)
        self._device = device
        self._threads = threading.local()  # the mode that each has
        self._lock = threading.RLock()  # operators of several threads come one after the other
        self._operators: dict[Any, _Operator] = {}
        self._entries: dict[int, _Entry] = {}  # by the address of a living StorageImpl
        self._by_key: dict[int, _Entry] = {}
        self._ended: list[_Entry] = []
        self._next_key = 0
        self._paused = self._regions = self._oldest_node = 0
        self._left: Any = None
        self._in_op = False
        self._resident = 0
        self._measure = False
        self.peak_bytes = self.pinned_bytes = 0
        self._memory = library.Memory(
            None,
            library.MemoryAlloc(self._alloc),
            library.MemoryFree(self._free),
            library.MemoryPointer(self._pointer),
            library.MemoryHold(self._hold),
            library.MemoryDrop(self._drop),
        )
        self._call("td_deck_set_memory", byref(self._memory))

    def _call(self, name: str, *arguments: Any) -> None:
        self._paused += 1  # operators that the deck's memory and device call are not the step's
        status = getattr(self._lib, name)(self._deck, *arguments)
        self._paused -= 1
        if status:
            error = self._lib.td_deck_error(self._deck).contents
            raise error_of(error.status, error.message.decode(errors="replace"))

    # ---- steps ----

    def begin(self) -> None:
        self._call("td_step_begin")
        self.peak_bytes = 0
        self.join(True)

    def end(self) -> None:
        self._leave()
        self._tell_ended()
        try:
            self._call("td_step_end")
        finally:
            self._forget()

    def abort(self) -> None:
        self._leave()
        self._lib.td_step_abort(self._deck)
        self._forget()

    def _leave(self) -> None:
        self.join(False)
        self._paused = 0

    def join(self, on: bool) -> None:
        """The operators of this thread are the step's, or are not."""
        if on:
            self._threads.mode = _Mode(self)
            self._threads.mode.__enter__()
        elif getattr(self._threads, "mode", None):
            self._threads.mode.__exit__(None, None, None)
            self._threads.mode = None

    def pause(self, by: int) -> None:
        self._paused += by

    # ---- operators ----

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        known = self._operators.get(func)
        if known is None:
            known = self._operators[func] = _Operator(func)
        with self._lock:
            if not (known.skipped or self._paused or self._in_op or self._is_meta(args, kwargs)):
                return self._run_op(known, func, args, kwargs)
        return func(*args, **kwargs)

    def _run_op(self, known: _Operator, func: Any, args: Any, kwargs: Any) -> Any:
        self._leave_older_regions()
        self._tell_ended()
        if known.asynchronous:
            for tensor in _tensors(args):
                self.pin(tensor)
        self._call("td_op_begin", known.name)
        self._in_op = True
        try:
            for i, value in enumerate(args):
                for tensor in _tensors(value):
                    self._touch(tensor, known.writes(i, args))
            for name, value in kwargs.items():
                for tensor in _tensors(value):
                    self._touch(tensor, known.keywords.get(name, False))
            self._call("td_op_run")
            result = func(*args, **kwargs)
            self._finish_op(list(_leaves(result)) if known.returns else [])
        except BaseException:
            self._lib.td_op_abort(self._deck)
            raise
        finally:
            self._in_op = False
        return result

    def call_begin(self, name: str, read: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
        self._tell_ended()
        self._call("td_op_begin", name.encode())
        try:
            for tensor in read:
                self._touch(tensor, False)
            for tensor in written:
                self._touch(tensor, True)
            self._call("td_op_run")
        except BaseException:
            self._lib.td_op_abort(self._deck)
            raise
        self._in_op = True

    def call_end(self, outputs: Sequence[torch.Tensor | None]) -> None:
        try:
            self._finish_op(outputs)
        except BaseException:
            self._lib.td_op_abort(self._deck)
            raise
        finally:
            self._in_op = False

    def call_abort(self) -> None:
        self._in_op = False
        self._lib.td_op_abort(self._deck)

    @staticmethod
    def _is_meta(args: Any, kwargs: Any) -> bool:
        """Tensors without bytes, as compilers use them, are no part of the step."""
        device = kwargs.get("device")
        if device is not None:
            return torch.device(device).type == "meta"
        return any(isinstance(value, torch.Tensor) and value.device.type == "meta" for value in args[:1])

    def _finish_op(self, leaves: Sequence[Any]) -> None:
        for leaf, value in enumerate(leaves):
            if isinstance(value, torch.Tensor):
                self._output(leaf, value)
        self._call("td_leaves", len(leaves))
        self.peak_bytes = max(self.peak_bytes, self._resident, self.live_bytes() if self._measure else 0)
        self._call("td_op_end", library.MEASURE)

    def _storage(self, tensor: torch.Tensor) -> torch.UntypedStorage | None:
        try:
            return _storage_of(tensor)
        except (NotImplementedError, RuntimeError):
            return None  # it has none, as a sparse one

    def _touch(self, tensor: torch.Tensor, written: bool) -> None:
        storage = self._storage(tensor)
        if storage is None:
            for part in _parts(tensor):
                entry = self._known_of(part)
                if entry and entry.handle:
                    self._call("td_read", entry.handle)
            return
        entry = self._entry_of(storage)
        if entry and entry.handle:
            self._call("td_write" if written else "td_read", entry.handle)

    def _output(self, leaf: int, tensor: torch.Tensor) -> None:
        storage = self._storage(tensor)
        if storage is None or storage.device != self._device:
            return
        entry = self._entries.get(storage._cdata)
        if entry is None:
            entry = self._make(storage) if self._regions else self._new_activation(storage)
        elif self._replaced(entry, storage):
            self._end(entry)
            entry = self._new_activation(storage)
        elif not entry.adopted:
            self._update_size(entry, storage)
        if entry.handle:
            self._call("td_output", leaf, entry.handle)

    # ---- storages ----

    def _known_of(self, tensor: torch.Tensor) -> _Entry | None:
        storage = self._storage(tensor)
        return None if storage is None else self._entries.get(storage._cdata)

    def _make(self, storage: torch.UntypedStorage) -> _Entry:
        self._next_key += 1
        entry = _Entry(self._next_key, storage)

        def ended(_: Any) -> None:  # may come at any time, so the deck is told later
            entry.ended = True
            if self._entries.get(entry.address) is entry:
                del self._entries[entry.address]
            self._ended.append(entry)

        entry.storage = weakref.ref(storage, ended)
        self._entries[entry.address] = entry
        self._by_key[entry.key] = entry
        return entry

    def _born(self, entry: _Entry) -> None:
        handle = library.Storage()
        self._call("td_storage_born", entry.key, entry.size, byref(handle))
        entry.handle = handle

    def _update_size(self, entry: _Entry, storage: torch.UntypedStorage) -> None:
        if entry.handle is None:  # made inside a region, and used outside
            self._born(entry)
        size = storage.nbytes()
        if size != entry.size:
            entry.size = size
            self._call("td_storage_resized", entry.handle, size)

    @staticmethod
    def _replaced(entry: _Entry, storage: torch.UntypedStorage) -> bool:
        """Somebody gave an activation other bytes."""
        return entry.adopted and entry.present and entry.size != storage.nbytes()

    def _entry_of(self, storage: torch.UntypedStorage) -> _Entry | None:
        entry = self._entries.get(storage._cdata)
        if entry and self._replaced(entry, storage):
            self._end(entry)
            entry = None
        if entry is None:
            if storage.device != self._device:
                return None
            entry = self._make(storage)
            self._born(entry)
        elif not entry.adopted and (entry.handle or not self._regions):
            self._update_size(entry, storage)
        return entry

    @staticmethod
    def _movable(storage: torch.UntypedStorage) -> bool:
        try:
            return storage.resizable() and storage.nbytes() > 0 and storage.data_ptr() != 0
        except RuntimeError:
            return False  # it has no bytes, as that of a tensor of zeros that is none

    def _new_activation(self, storage: torch.UntypedStorage) -> _Entry:
        entry = self._make(storage)
        if not self._movable(storage):
            self._born(entry)
            return entry
        handle = library.Storage()
        self._call("td_storage_adopt", entry.key, entry.size, byref(handle))
        entry.handle = handle
        entry.adopted = True
        self._resident += entry.size
        return entry

    # ---- ends ----

    def _tell_ended(self) -> None:
        if self._regions:
            return
        while self._ended:
            self._end(self._ended.pop(0))

    def _end(self, entry: _Entry) -> None:
        """The deck no longer knows it."""
        self._by_key.pop(entry.key, None)
        if self._entries.get(entry.address) is entry:
            del self._entries[entry.address]
        if entry.adopted and entry.present:
            self._resident -= entry.size
        if entry.handle:
            handle, entry.handle = entry.handle, None
            if entry.holds:
                self._by_key[entry.key] = entry  # until the copy is done
            self._lib.td_storage_freed(self._deck, handle)

    def _forget(self) -> None:
        """After the step all storages are PyTorch's alone."""
        for entry in list(self._by_key.values()):
            if entry.handle:
                self._lib.td_storage_freed(self._deck, entry.handle)
        self._entries.clear()
        self._by_key.clear()
        self._ended.clear()
        self._resident = self._regions = self._oldest_node = 0
        self._in_op = False

    # ---- opaque regions ----

    def region_begin(self, name: str, inputs: Sequence[torch.Tensor]) -> int:
        self._tell_ended()
        self._find(inputs)
        region = library.Region()
        self._call("td_region_begin", name.encode(), byref(region))
        self._regions += 1
        self._read_inside(inputs)
        return region.id

    def region_end(self, region: int, outputs: Sequence[torch.Tensor | None]) -> None:
        self._tell_outputs(outputs)
        self._regions -= 1
        self._call("td_region_end", library.Region(region))

    def region_backward_begin(self, region: int, gradients: Sequence[torch.Tensor]) -> None:
        self._tell_ended()
        self._find(gradients)
        self._call("td_region_backward_begin", library.Region(region))
        self._regions += 1
        self._read_inside(gradients)

    def region_backward_end(self, region: int, gradients: Sequence[torch.Tensor | None]) -> None:
        self._tell_outputs(gradients)
        self._regions -= 1
        self._call("td_region_backward_end", library.Region(region))

    def region_abort(self, region: int) -> None:
        self._regions -= 1
        self._call("td_region_abort", library.Region(region))

    def watch_nodes(self, oldest: int, left: Any) -> None:
        self._oldest_node, self._left = oldest, left

    def _leave_older_regions(self) -> None:
        """A node that is older than an open region is no part of its backward pass."""
        if self._oldest_node:
            node = torch._C._current_autograd_node()
            if node is not None and node._sequence_nr() < self._oldest_node:
                self._left(node._sequence_nr())

    def _find(self, tensors: Sequence[torch.Tensor]) -> None:
        """What the outermost region finds is not its own."""
        for tensor in tensors if not self._regions else ():
            storage = self._storage(tensor)
            if storage is not None:
                self._entry_of(storage)

    def _read_inside(self, tensors: Sequence[torch.Tensor]) -> None:
        self._call("td_op_begin", b"inputs")
        for tensor in tensors:
            self._touch(tensor, False)
        self._call("td_op_end", 0)

    def _tell_outputs(self, outputs: Sequence[torch.Tensor | None]) -> None:
        if self._regions != 1:
            return
        self._regions = 0
        for leaf, tensor in enumerate(outputs):
            if tensor is None:
                continue
            entry = self._known_of(tensor)
            if entry and entry.handle is None:
                self._end(entry)
            self._output(leaf, tensor)
        self._regions = 1
        self._call("td_leaves", len(outputs))
        self.peak_bytes = max(self.peak_bytes, self._resident)

    # ---- what is read outside of operators ----

    def restore(self, tensor: torch.Tensor) -> None:
        entry = self._known_of(tensor)
        if entry and entry.adopted and entry.handle:
            self._call("td_storage_restore", entry.handle)

    def pin(self, tensor: torch.Tensor) -> None:
        """The storage is whole and stays where it is for the rest of the step: others have its address."""
        self.restore(tensor)
        entry = self._known_of(tensor)
        if entry and entry.adopted and not self._in_op:
            self.pinned_bytes += entry.size
            self._end(entry)

    # ---- what is measured ----

    def live_bytes(self) -> int:
        """The sum over the storages themselves."""
        total = 0
        for entry in self._entries.values():
            storage = entry.storage() if entry.adopted else None
            total += storage.nbytes() if storage is not None else 0
        return total

    def measure(self, on: bool) -> None:
        self._measure = on

    # ---- the deck's calls: where bytes are ----

    def _alloc(self, _context: Any, key: int, size: int) -> bool:
        entry = self._by_key[key]
        storage = entry.storage()
        try:
            fresh = torch.UntypedStorage(size, device=self._device)
        except RuntimeError:
            return False
        if storage is None:
            entry.held = fresh
        else:
            storage._swap_data_ptr_(fresh)
        entry.present = True
        self._resident += size
        return True

    def _free(self, _context: Any, key: int, size: int) -> None:
        entry = self._by_key[key]
        storage = entry.storage()
        if storage is not None:
            empty = torch.empty(0, dtype=torch.uint8, device=self._device)
            torch._C._set_throw_on_mutable_data_ptr(empty)
            storage._swap_data_ptr_(_storage_of(empty))
        entry.present = False
        self._resident -= size

    def _pointer(self, _context: Any, key: int) -> int:
        entry = self._by_key[key]
        storage = entry.held if entry.held is not None else entry.storage()
        if storage is None:  # it ended a moment ago, and what is copied for it is nobody's
            storage = entry.held = torch.UntypedStorage(entry.size, device=self._device)
        return storage.data_ptr()

    def _hold(self, _context: Any, key: int) -> None:
        entry = self._by_key[key]
        entry.holds += 1
        if entry.held is None:
            entry.held = entry.storage()

    def _drop(self, _context: Any, key: int) -> bool:
        entry = self._by_key[key]
        entry.holds -= 1
        if entry.holds == 0:
            entry.held = None
            if entry.handle is None:
                del self._by_key[key]
        return not entry.ended
