"""Sessions: steps that are recorded, planned and replayed."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import warnings
from contextlib import contextmanager
from ctypes import POINTER, byref, pointer
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Literal

import torch

from . import behind, compiled, library, regions
from .devices import Device, open_device
from .errors import ArgumentError, StateError, error_of
from .library import call
from .operators import ASYNCHRONOUS, SILENT_WRITES, SKIPPED
from .tape import Tape

HookName = Literal["auto", "native", "python"]
Policy = Literal["resync", "strict", "passthrough", "rerecord"]

# Another version of a hook sees another stream of operators.
HOOK_VERSION = "1"
# Where the native hook may put its own deleter on a storage's pointer, to be told of its end; allocators of accelerators look at theirs.
_WRAPPED = {"cpu"}
_POLICIES = ("resync", "strict", "passthrough", "rerecord")  # in the order of td_policy


def _policy(name: str) -> int:
    if name not in _POLICIES:
        raise ArgumentError(f"policy is one of {', '.join(_POLICIES)}, not {name!r}")
    return _POLICIES.index(name)


@dataclass
class Report:
    """What happened, of the step that ended last. Sizes are in bytes, times in nanoseconds."""

    replayed: bool
    steps: int  # that ended whole
    hook: str
    ops: int
    budget_bytes: int | None
    peak_bytes: int  # of activations on the device, copies under way included
    measured_peak_bytes: int  # the same, counted in the storages themselves
    overshoot_bytes: int  # over the budget
    host_peak_bytes: int
    d2h_bytes: int
    h2d_bytes: int
    stall_ns: int
    demand_faults: int
    late_prefetches: int
    diverged_ops: int
    divergence: str  # where the step first left the recorded one
    pinned_bytes: int  # of activations that had to stay, since others have their address
    step_ns: int
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        what = "replayed" if self.replayed else "recorded"
        lines = [f"step {self.steps} {what} by the {self.hook} hook: {self.ops} ops, peak {_size(self.peak_bytes)}"]
        if self.budget_bytes is not None:
            lines[0] += f" of {_size(self.budget_bytes)}"
        lines[0] += f"; to the host {_size(self.d2h_bytes)}, back {_size(self.h2d_bytes)}, waited {self.stall_ns / 1e6:.1f} ms"
        if self.divergence:
            lines.append(f"left the recorded step: {self.divergence}")
        return "\n".join(lines + self.notes)


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.1f} {unit}" if unit != "B" else f"{count} B"


def _rank() -> str:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return str(torch.distributed.get_rank())
    rank = os.environ.get("RANK")
    if rank is None:
        raise ArgumentError(
            "the path has {rank}, but neither torch.distributed nor the environment's RANK says which one this is"
        )
    return rank


def model_key(model: torch.nn.Module) -> str:
    """A digest of the names, shapes and types of a model's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
    return digest.hexdigest()[:32]


def _traced_device(device: Any, model: torch.nn.Module | None) -> torch.device:
    """The device whose storages are recorded: the one given, the model's, or the accelerator where there is one."""
    if device is None and model is not None:
        device = next((p.device for p in model.parameters()), None)
    if device is None:
        device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    device = torch.device(device)
    if device.type != "cpu" and device.index is None:
        device = torch.device(device.type, torch.accelerator.current_device_index())
    return device


def _place(sharding: dict[str, Any] | None, mesh: Any) -> library.ShardingPlace:
    """Where this process stands in the job, as docs/sharding.md has it; what is not known is 0."""
    place = library.ShardingPlace()
    if sharding is not None:
        place.plan = json.dumps(sharding).encode()
    if mesh is not None:
        names = list(mesh.mesh_dim_names or range(mesh.ndim))
        axes = [i for i, name in enumerate(names) if sharding is None or name in sharding["mesh_dim_names"]]
        coordinates = mesh.get_coordinate()
        numbers = ctypes.c_uint64 * len(axes)
        place.n_mesh = len(axes)
        place.mesh_shape = numbers(*(mesh.size(i) for i in axes))
        place.mesh_coords = numbers(*(coordinates[i] for i in axes))
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        place.rank, place.world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return place


class Steps:
    """What a recording, a replay and a session have in common: `with` is one step."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        hook: HookName = "auto",
        device: Any = None,
        model: torch.nn.Module | None = None,
        key: str | None = None,
        sharding: dict[str, Any] | None = None,
        mesh: Any = None,
    ) -> None:
        if hook not in ("auto", "native", "python"):
            raise ArgumentError(f"hook is 'auto', 'native' or 'python', not {hook!r}")
        path = os.fspath(path)
        self.path = path.replace("{rank}", _rank()) if "{rank}" in path else path
        self.key = key if key is not None else model_key(model) if model is not None else None
        self._place = _place(sharding, mesh)
        self.traced = _traced_device(device, model)
        self.budget: int | None = None
        self.regions: set[Any] = set()  # of this step
        self.forward: list[Any] = []  # those that run their forward pass, the outermost first
        self.steps = 0
        self.opaque: set[str] = set()  # the names of all regions so far
        self._wanted_hook: HookName = hook
        self._deck = ctypes.c_void_p()
        self._device: Device | None = open_device(self.traced)
        self.hook: Any = None
        self.hook_name = ""

    # ---- the deck ----

    def _choose_hook(self) -> None:
        """The native one where it can be built; the tape's where there is one to replay."""
        self.hook_name = self._wanted_hook
        if self.hook_name in ("auto", "native"):
            from . import native

            try:
                native.load()
                self.hook_name = "native"
            except native.NoCompiler as error:
                if self.hook_name == "native":
                    raise
                warnings.warn(f"{error}; the Python hook is used, which costs some 20 us an operator", stacklevel=4)
                self.hook_name = "python"

    def _device_handle(self) -> ctypes.c_void_p:
        assert self._device
        return self._device.handle

    def _attach_hook(self) -> None:
        deck = self._deck.value
        assert deck
        if self.hook_name == "native":
            from . import native

            wrap = self.traced.type in _WRAPPED
            self.hook = native.load().Hook(deck, self.traced, error_of, SILENT_WRITES, SKIPPED, ASYNCHRONOUS, wrap)
        else:
            from . import dispatch

            self.hook = dispatch.Hook(deck, self.traced)

    def _meta(self) -> tuple[Any, int]:
        """What the tape says of how it was recorded."""
        meta = {"hook": self.hook_name, "hook_version": HOOK_VERSION, "torch": torch.__version__, "device": str(self.traced)}
        if self.key is not None:
            meta["model_key"] = self.key
        pairs = [library.Meta(name.encode(), value.encode()) for name, value in meta.items()]
        return (library.Meta * len(pairs))(*pairs), len(pairs)

    def _check_tape(self, tape: Tape) -> None:
        """A tape that was recorded by another hook or with another model is refused, with a way out."""
        meta = tape.meta()
        found = meta.get("hook")
        if found not in ("native", "python"):
            raise StateError(f"{self.path} was not recorded from PyTorch; record another with tapedeck.record(path)")
        if self._wanted_hook == "auto" and found == "python":
            self.hook_name = "python"
        if (found, str(meta.get("hook_version"))) != (self.hook_name, HOOK_VERSION):
            raise StateError(
                f"{self.path} was recorded by the {found} hook, version {meta.get('hook_version')}, whose operators are not quite those of"
                f" the {self.hook_name} hook, version {HOOK_VERSION}: pass hook={found!r}, or remove the tape to record anew"
            )
        if self.key is not None and meta.get("model_key") not in (None, self.key):
            raise StateError(f"{self.path} was recorded with another model: name another path, or remove the tape to record anew")

    def close(self) -> None:
        """Gives everything back. The tape stays."""
        if self._deck:
            self._abort()
            library.load().td_deck_destroy(self._deck)
            self._deck = ctypes.c_void_p()
        if self._device:
            self._device.close()
            self._device = None

    def __del__(self) -> None:
        if getattr(self, "_deck", None) or getattr(self, "_device", None):
            self.close()

    # ---- a step ----

    def __enter__(self) -> Any:
        if regions.active is not None:
            raise StateError("a step is running already: sessions do not nest")
        if not self._deck:
            raise StateError("the session is closed")
        self.hook.begin()
        self.regions = set()
        regions.active = self
        behind.watch(self.hook)
        compiled.watch(self.hook)
        return self

    def _leave(self) -> None:
        regions.active = None
        behind.unwatch()
        compiled.unwatch()
        self.regions = set()
        self.forward = []

    def _abort(self) -> None:
        if regions.active is self:
            self._leave()
            self.hook.abort()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self._abort()
            return
        self._leave()
        self.hook.end()
        self.steps += 1

    def _stats(self) -> library.StepStats:
        stats = library.StepStats()
        library.load().td_deck_stats(self._deck, byref(stats))
        return stats

    def open_backward(self) -> None:
        """A region's backward op began or ended."""
        oldest = max((region.first_node for region in self.regions if region.open), default=0)
        self.hook.watch_nodes(oldest, self._leave_regions)

    def _leave_regions(self, node: int) -> None:
        for region in [region for region in self.regions if region.open and region.first_node > node]:
            region.end()

    # ---- inside a step ----

    def restore(self, tensor: torch.Tensor) -> torch.Tensor:
        """Brings a tensor's bytes back if they are away; they stay until the next operator begins."""
        if regions.active is self:
            self.hook.restore(tensor)
        return tensor

    @contextmanager
    def join(self) -> Iterator[None]:
        """Operators of another thread than the one that began the step join it while inside this."""
        self.hook.join(True)
        try:
            yield
        finally:
            self.hook.join(False)

    def mark(self, name: str) -> None:
        """Names the current position in the step, such as "forward_end"."""
        if library.load().td_step_mark(self._deck, name.encode()):
            error = library.load().td_deck_error(self._deck).contents
            raise error_of(error.status, error.message.decode(errors="replace"))

    # ---- what happened ----

    def _notes(self) -> list[str]:
        if not self.opaque:
            return []
        return [
            f"what the opaque regions {', '.join(sorted(self.opaque))} keep for the backward pass stays on the device, outside the budget"
        ]

    def report(self) -> Report:
        stats = self._stats()
        peak = max(stats.peak_bytes, self.hook.peak_bytes)
        return Report(
            replayed=stats.replayed,
            steps=self.steps,
            hook=self.hook_name,
            ops=stats.ops,
            budget_bytes=self.budget,
            peak_bytes=stats.peak_bytes,
            measured_peak_bytes=self.hook.peak_bytes,
            overshoot_bytes=max(0, peak - self.budget) if self.budget else 0,
            host_peak_bytes=stats.host_peak_bytes,
            d2h_bytes=stats.d2h_bytes,
            h2d_bytes=stats.h2d_bytes,
            stall_ns=stats.stall_ns,
            demand_faults=stats.demand_faults,
            late_prefetches=stats.late_prefetches,
            diverged_ops=stats.diverged_ops,
            divergence=(library.load().td_replayer_divergence(self._deck) or b"").decode(errors="replace"),
            pinned_bytes=self.hook.pinned_bytes,
            step_ns=stats.step_ns,
            notes=self._notes(),
        )


def active() -> Steps | None:
    """The session that is inside a step."""
    return regions.active


def _text(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _plan(path: str, options: library.PlanOptions) -> None:
    """Makes a schedule for the newest trace of a tape and stores it there."""
    handle, raw, schedule = ctypes.c_void_p(), POINTER(library.Trace)(), POINTER(library.Schedule)()
    call("td_tape_open", byref(handle), os.fsencode(path))
    try:
        call("td_tape_load_trace", handle, library.NEWEST, byref(raw))
        call("td_plan", raw, byref(options), byref(schedule), None)
        call("td_tape_add_schedule", os.fsencode(path), library.NEWEST, schedule)
    finally:
        library.load().td_schedule_destroy(schedule)
        library.load().td_trace_destroy(raw)
        library.load().td_tape_close(handle)


class Recording(Steps):
    """Steps that are recorded: `with recording:` is one, and the tape holds the last."""

    def __init__(self, path: str | os.PathLike[str], *, budget: int | str | None = None, **common: Any) -> None:
        super().__init__(path, **common)
        self.budget = None if budget is None else library.parse_size(budget)
        self._choose_hook()
        meta, n_meta = self._meta()
        options = library.RecorderOptions(
            path=os.fsencode(self.path), meta=meta, n_meta=n_meta, device=self._device_handle(), limit_bytes=self.budget or 0,
            sharding=pointer(self._place),
        )  # fmt: skip
        call("td_recorder_create", byref(self._deck), byref(options))
        self._attach_hook()


class Replay(Steps):
    """Steps that follow a tape: `with replay:` is one."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        budget: int | str | None = None,
        policy: Policy = "resync",
        planner: str | None = None,
        d2h: float | str = 0.0,
        h2d: float | str = 0.0,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self._choose_hook()
        with Tape(self.path) as tape:
            self._check_tape(tape)
            schedules = tape.schedules()
            if budget is not None:
                self.budget = library.parse_size(budget, tape.info()["peak_bytes"])
            elif schedules:
                self.budget = schedules[-1]["memory_limit_bytes"]
            else:
                raise ArgumentError(
                    f"{self.path} has no schedule: pass budget=, or make one with 'tapedeck plan {self.path} --budget SIZE'"
                )
        if not schedules or schedules[-1]["memory_limit_bytes"] != self.budget:
            rates = {"d2h_bytes_per_s": library.parse_rate(d2h), "h2d_bytes_per_s": library.parse_rate(h2d)}
            _plan(self.path, library.PlanOptions(budget_bytes=self.budget, planner=_text(planner), **rates))
        options = library.ReplayerOptions(
            path=os.fsencode(self.path),
            device=self._device_handle(),
            policy=_policy(policy),
            limit_bytes=library.LIMIT_OF_SCHEDULE,
            sharding=pointer(self._place),
        )
        call("td_replayer_create", byref(self._deck), byref(options))
        self._attach_hook()


class Session(Steps):
    """Both: the first steps record, inside the budget, until two in a row are alike; then it plans, and later steps are replayed.

    path         the tape; `{rank}` in it stands for this process's rank
    budget       for activations on the device: bytes, "4GiB", or, where the tape is there already, "60%" of its peak
    model, key   what the tape is for: a model, whose parameter names and shapes make the key, or a key of your own. A tape of the same
                 hook and key that is there is replayed at once, checked op by op
    policy       for steps that are not the recorded one: "resync" finds the trace again, "passthrough" goes on without offloading for the
                 rest of the step, "rerecord" records anew after it, "strict" raises DivergedError. The data stays right in each
    hook         "native", "python", or "auto": the native one where a C++ compiler is
    sharding     the plan that shards the model, from freeze_plan: kept in the tape, and a tape of another plan is refused
    mesh         the DeviceMesh that it speaks of: its shape and this process's coordinates are kept and compared likewise
    device       whose storages are recorded; the model's, else the accelerator's where there is one
    d2h, h2d     the link's speeds to plan with, bytes a second or "16GiB"; measured where not given
    max_warmups  plan after so many steps even if no two in a row were alike
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        budget: int | str,
        policy: Policy = "resync",
        planner: str | None = None,
        d2h: float | str = 0.0,
        h2d: float | str = 0.0,
        max_warmups: int = 0,
        **common: Any,
    ) -> None:
        super().__init__(path, **common)
        self._choose_hook()
        resume = Path(self.path).exists()
        peak = 0
        if resume:
            with Tape(self.path) as tape:
                self._check_tape(tape)
                peak = tape.info()["peak_bytes"]
        elif isinstance(budget, str) and budget.rstrip().endswith("%"):
            raise ArgumentError(
                f"a budget of {budget} is a share of the peak, which is not known before there is a tape: give a size"
            )
        self.budget = library.parse_size(budget, peak)
        meta, n_meta = self._meta()
        options = library.SessionOptions(
            path=os.fsencode(self.path), meta=meta, n_meta=n_meta, resume=resume, device=self._device_handle(), budget_bytes=self.budget,
            d2h_bytes_per_s=library.parse_rate(d2h), h2d_bytes_per_s=library.parse_rate(h2d), planner=_text(planner), policy=_policy(policy),
            max_warmups=max_warmups, sharding=pointer(self._place),
        )  # fmt: skip
        call("td_session_create", byref(self._deck), byref(options))
        self._attach_hook()

    @property
    def replays(self) -> bool:
        """Whether the latest step was replayed."""
        return self._stats().replayed


def record(
    path: str | os.PathLike[str],
    *,
    budget: int | str | None = None,
    model: torch.nn.Module | None = None,
    key: str | None = None,
    hook: HookName = "auto",
    device: Any = None,
    sharding: dict[str, Any] | None = None,
    mesh: Any = None,
) -> Recording:
    """Records each `with` as a step; the tape at `path` holds the last. With a budget the step stays inside it."""
    return Recording(path, budget=budget, model=model, key=key, hook=hook, device=device, sharding=sharding, mesh=mesh)


def replay(
    path: str | os.PathLike[str],
    *,
    budget: int | str | None = None,
    policy: Policy = "resync",
    planner: str | None = None,
    d2h: float | str = 0.0,
    h2d: float | str = 0.0,
    model: torch.nn.Module | None = None,
    key: str | None = None,
    hook: HookName = "auto",
    device: Any = None,
    sharding: dict[str, Any] | None = None,
    mesh: Any = None,
) -> Replay:
    """Replays a tape that was recorded before, on this machine or another: its newest schedule, or one that is made for `budget`."""
    return Replay(
        path, budget=budget, policy=policy, planner=planner, d2h=d2h, h2d=h2d,
        model=model, key=key, hook=hook, device=device, sharding=sharding, mesh=mesh,
    )  # fmt: skip
