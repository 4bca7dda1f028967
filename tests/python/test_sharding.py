"""Sharding plans from the objects that programs have."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import tapedeck

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "sharding" / "vectors.json"


class Axis(Enum):
    TP = "tp"
    EP = 2


class Replicate:
    pass


@dataclass
class Shard:
    dim: int
    uneven_shard: bool = False


@dataclass
class StridedShard(Shard):
    split_factor: int = 1


@dataclass
class Partial:
    reduce_op: Any = "sum"


class Reduction(Enum):
    AVG = "avg"


class Target:
    def to_dict(self) -> dict[str, Any]:
        return {"target": "attention", "axis": Axis.TP}


def swiglu() -> None: ...


@dataclass
class Spec:
    params: Any = None
    in_src: Any = None
    inner_wrapper: Any = None
    local_compute_fn: Any = None
    _ep_size: int = 0


@dataclass
class Plan:
    modules: dict[str, Any]
    tied_pairs: list[tuple[str, str]] = field(default_factory=list)
    special_handlers: dict[str, Any] = field(default_factory=dict)
    mesh_dim_names: tuple[Any, ...] = ()


def plan() -> Plan:
    attention = Spec(
        params={"q.weight": {Axis.TP: Shard(0), Axis.EP: Replicate()}, "gate": {Axis.TP: StridedShard(1, True, 4)}},
        in_src={"x": {Axis.TP: Partial(Reduction.AVG)}},
        inner_wrapper=Target(),
        local_compute_fn=swiglu,
    )
    return Plan({"layers.0": attention}, tied_pairs=[("a", "b")], mesh_dim_names=(Axis.TP, "ep"))


def test_objects_freeze_by_what_they_have() -> None:
    frozen = tapedeck.freeze_plan(plan())
    assert frozen["param_plan"]["layers.0"] == {
        "params": {"q.weight": {"tp": "S(0)", "EP": "R"}, "gate": {"tp": "SS(-2,4)"}},
        "in_src": {"x": {"tp": "P(avg)"}},
    }
    assert frozen["injections"] == [
        {"match": "layers.0", "inner_wrapper": {"target": "attention", "axis": "tp"}, "local_compute_fn": "swiglu"}
    ]
    assert frozen["frozen_sharded_params"] == ["layers.0.gate", "layers.0.q.weight"]
    assert frozen["tied_pairs"] == [["a", "b"]] and frozen["mesh_dim_names"] == ["tp", "ep"]
    assert list(frozen) == [
        "param_plan",
        "injections",
        "tied_pairs",
        "special_handlers",
        "frozen_sharded_params",
        "boundary_classes",
        "mesh_dim_names",
    ]


def test_no_plan() -> None:
    assert tapedeck.freeze_plan(None)["param_plan"] == {}


@pytest.mark.skipif(not VECTORS.exists(), reason="needs ../shared")
def test_the_vectors() -> None:
    for case in json.loads(VECTORS.read_text())["freeze"]:
        assert tapedeck.freeze_plan(case["live"]) == case["frozen"]


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(tapedeck.InputError, match="layers.0.params.w.tp: a object has no form"):
        tapedeck.freeze_plan(Plan({"layers.0": Spec(params={"w": {"tp": object()}})}))
    with pytest.raises(tapedeck.InputError):
        tapedeck.freeze_plan({"modules": {"m": {"params": {"w": {"tp": {"type": "Shard", "dim": -1}}}}}})
