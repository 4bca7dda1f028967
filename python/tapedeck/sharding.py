"""Sharding plans: the live form of the objects that a program has, and from there frozen by the library (docs/sharding.md)."""

from __future__ import annotations

import ctypes
import json
from ctypes import byref
from enum import Enum
from typing import Any, Iterable, Mapping

from . import library
from .errors import InputError
from .library import call

_SPEC_FIELDS = (
    "params", "in_src", "in_dst", "out_src", "out_dst", "out_names", "tp_divide_attrs", "is_boundary", "region_dispatch",
    "_deferred_bias_params", "inner_wrapper", "inner_target", "inner_out_src", "local_compute_fn", "_ep_stack", "_ep_size",
)  # fmt: skip


def _get(thing: Any, name: str, default: Any = None) -> Any:
    """A member of a mapping or an attribute of an object."""
    return thing.get(name, default) if isinstance(thing, Mapping) else getattr(thing, name, default)


def _key(key: Any) -> str:
    """An axis or another key; of an enum its value where that is text, else its name."""
    if isinstance(key, Enum):
        return key.value if isinstance(key.value, str) else key.name
    return str(key)


def _placement(value: Any) -> dict[str, Any] | None:
    """The live form of a placement, known by what it has; None: it is none. The strided shard has a dimension too, so it comes first."""
    kind = type(value).__name__.lstrip("_")
    uneven = bool(getattr(value, "uneven_shard", False))
    if hasattr(value, "split_factor") and hasattr(value, "dim"):
        return {"type": "StridedShard", "dim": int(value.dim), "split_factor": int(value.split_factor), "uneven_shard": uneven}
    if hasattr(value, "reduce_op"):
        return {"type": "Partial", "reduce_op": _key(value.reduce_op)}
    if kind == "Shard" and hasattr(value, "dim"):
        return {"type": "Shard", "dim": int(value.dim), "uneven_shard": uneven}
    if kind in ("Replicate", "Replicated"):
        return {"type": "Replicate"}
    return None


def _live(value: Any, where: str) -> Any:
    """The JSON of a value: placements, targets, callables, enums and containers of them."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum):
        return value
    if isinstance(value, Mapping):
        return {_key(key): _live(item, f"{where}.{_key(key)}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_live(item, where) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(_live(item, where) for item in value)
    if isinstance(value, Enum):
        return _key(value)
    placement = _placement(value)
    if placement:
        return placement
    if hasattr(value, "to_dict"):
        return {"to_dict": _live(value.to_dict(), where)}
    if callable(value):
        return {"callable": getattr(value, "__name__", type(value).__name__)}
    raise InputError(f"{where}: a {type(value).__name__} has no form in a sharding plan")


def _spec(spec: Any, module: str) -> dict[str, Any]:
    if isinstance(spec, Mapping):
        return _live(spec, module)
    return {name: _live(getattr(spec, name), f"{module}.{name}") for name in _SPEC_FIELDS if hasattr(spec, name)}


def _classes(names: Iterable[str], model: Any) -> dict[str, str]:
    """The class of each module; one that the model has not got is left out, which freezing refuses."""
    modules = dict(model.named_modules())
    return {name: type(modules[name]).__name__ for name in names if name in modules}


def live_plan(plan: Any, model: Any = None) -> dict[str, Any] | None:
    """The live form of a plan, as docs/sharding.md has it."""
    if plan is None:
        return None
    modules = {str(name): _spec(spec, str(name)) for name, spec in (_get(plan, "modules") or {}).items()}
    live: dict[str, Any] = {"modules": modules}
    classes = _classes(modules, model) if model is not None else _live(_get(plan, "classes"), "classes")
    if classes is not None:
        live["classes"] = classes
    for name in ("tied_pairs", "special_handlers", "mesh_dim_names"):
        value = _get(plan, name)
        if value is not None:
            live[name] = _live(value, name)
    return live


def freeze_plan(plan: Any, model: Any = None) -> dict[str, Any]:
    """A plan as plain JSON, the same for the same plan: what a session takes as `sharding`, and `tapedeck sharding` reads.

    `plan` is a mapping in the live form, or any object with the members `modules`, `tied_pairs`, `special_handlers` and `mesh_dim_names`
    whose placements have dim, split_factor or reduce_op; None is no plan. Axes may be enums. With `model`, the class of each module is
    kept, and one that the model has not got is an error.
    """
    text = ctypes.c_void_p()
    call("td_sharding_freeze", json.dumps(live_plan(plan, model)).encode(), byref(text))
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        library.free(text)


def plan_from_dtensor(model: Any) -> dict[str, Any]:
    """The live plan of a model whose parameters are DTensors: where each lies on the axes of its mesh. Others are left out.

    An axis without a name is called dim0, dim1 and so on; a shard is uneven where the axis does not divide the dimension.
    """
    modules: dict[str, Any] = {}
    axes: list[str] = []
    for name, module in model.named_modules():
        placed = {}
        for parameter_name, parameter in module.named_parameters(recurse=False):
            if hasattr(parameter, "placements") and hasattr(parameter, "device_mesh"):
                placed[parameter_name] = _placed(parameter, axes)
        if placed:
            modules[name] = {"params": placed}
    return {"modules": modules, "classes": _classes(modules, model), "mesh_dim_names": axes}


def _placed(parameter: Any, axes: list[str]) -> dict[str, Any]:
    """The placement along each axis; axes of more than one device are noted in `axes`."""
    mesh = parameter.device_mesh
    names = mesh.mesh_dim_names or [f"dim{i}" for i in range(mesh.ndim)]
    found: dict[str, Any] = {}
    for i, (axis, placement) in enumerate(zip(names, parameter.placements)):
        live = _placement(placement)
        if live is None:
            raise InputError(f"axis {axis}: a {type(placement).__name__} has no form in a sharding plan")
        if "dim" in live:
            live["uneven_shard"] = parameter.shape[live["dim"]] % mesh.size(i) != 0
        if mesh.size(i) > 1 and axis not in axes:
            axes.append(axis)
        found[axis] = live
    return found
