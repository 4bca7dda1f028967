"""Several processes: a tape a rank, collectives, and the plans of sharded models."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import tapedeck
import torch
import torch.distributed as dist
import torch.multiprocessing
from test_torch_sessions import BUDGET, batches, layers, plain_step

pytestmark = pytest.mark.skipif(
    not dist.is_available() or not dist.is_gloo_available(), reason="needs torch.distributed with gloo"
)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def join(rank: int, world: int, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)


def train(session: Any, by_hand: bool) -> list[torch.Tensor]:
    """Data parallel: gradients are averaged inside the step, by hand or by PyTorch."""
    model = layers() if by_hand else torch.nn.parallel.DistributedDataParallel(layers())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor) -> None:
        plain_step(model, x)
        for parameter in model.parameters() if by_hand else ():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    for x in batches(6):
        optimizer.zero_grad()
        x = x + dist.get_rank()
        if session is None:
            step(x)
        else:
            with session:
                step(x)
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def worker(rank: int, world: int, port: int, path: str, hook: str, by_hand: bool) -> None:
    torch.set_num_threads(1)
    join(rank, world, port)
    plain = train(None, by_hand)
    session = tapedeck.Session(path, budget=BUDGET, hook=hook)
    budgeted = train(session, by_hand)
    assert all(torch.equal(a, b) for a, b in zip(plain, budgeted))
    assert session.report().replayed and session.report().d2h_bytes
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.parametrize("by_hand", [True, False], ids=["by_hand", "ddp"])
def test_one_tape_a_rank(hook: str, tmp_path: Path, by_hand: bool) -> None:
    torch.multiprocessing.spawn(worker, (2, free_port(), str(tmp_path / "step.{rank}.tape"), hook, by_hand), nprocs=2)
    for rank in range(2):
        meta = tapedeck.open(tmp_path / f"step.{rank}.tape").meta()
        assert (int(meta["rank"]), int(meta["world_size"])) == (rank, 2)


@pytest.fixture
def mesh() -> Iterator[Callable[..., Any]]:
    from torch.distributed.device_mesh import init_device_mesh

    join(0, 1, free_port())
    yield lambda *names: init_device_mesh("cpu", (1,) * len(names), mesh_dim_names=names)
    dist.destroy_process_group()


def test_a_plan_from_dtensors(mesh: Callable[..., Any]) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU())
    placed = distribute_tensor(model[0].weight.detach(), mesh("dp", "tp"), [Replicate(), Shard(1)])
    model[0].weight = torch.nn.Parameter(placed)
    frozen = tapedeck.freeze_plan(tapedeck.plan_from_dtensor(model))
    assert frozen["param_plan"] == {"0": {"params": {"weight": {"dp": "R", "tp": "S(1)"}}}}
    assert frozen["boundary_classes"] == {"0": "Linear"} and frozen["frozen_sharded_params"] == ["0.weight"]
    assert frozen["mesh_dim_names"] == []


def test_the_place_in_the_mesh(mesh: Callable[..., Any], hook: str, tape: str) -> None:
    plan = tapedeck.freeze_plan({"mesh_dim_names": ["tp"]})
    with tapedeck.record(tape, hook=hook, sharding=plan, mesh=mesh("dp", "tp")) as recording:
        torch.ones(4).exp()
    recording.close()
    meta = tapedeck.open(tape).meta()
    assert (meta["mesh_shape"], meta["mesh_coords"], meta["rank"], meta["world_size"]) == ([1], [0], 0, 1)
    other = tapedeck.freeze_plan({"mesh_dim_names": ["dp", "tp"]})
    with pytest.raises(tapedeck.DivergedError, match="mesh_dim_names"):
        tapedeck.replay(tape, budget="100%", hook=hook, sharding=other, mesh=mesh("dp", "tp"))
    with pytest.raises(tapedeck.DivergedError, match="sizes of the mesh have 1 axes in the tape, 2 here"):
        tapedeck.replay(tape, budget="100%", hook=hook, mesh=mesh("dp", "tp"))


def test_the_strided_shard_of_dtensor(mesh: Callable[..., Any]) -> None:
    from tapedeck.sharding import _placement
    from torch.distributed.tensor.placement_types import _StridedShard

    assert _placement(_StridedShard(1, split_factor=2)) == {
        "type": "StridedShard",
        "dim": 1,
        "split_factor": 2,
        "uneven_shard": False,
    }


def test_a_tape_of_another_plan_is_refused(hook: str, tape: str) -> None:
    one = tapedeck.freeze_plan({"modules": {"m": {"params": {"w": {"tp": {"type": "Shard", "dim": 0}}}}}})
    other = tapedeck.freeze_plan({"modules": {"m": {"params": {"w": {"tp": {"type": "Replicate"}}}}}})
    with tapedeck.record(tape, hook=hook, sharding=one) as recording:
        torch.ones(4).exp()
    recording.close()
    assert tapedeck.open(tape).meta()["sharding_plan"] == one
    with pytest.raises(tapedeck.DivergedError, match=r"another sharding plan: m.*w.*tp.*S\(0\).*R"):
        tapedeck.replay(tape, budget="100%", hook=hook, sharding=other)
    tapedeck.replay(tape, budget="100%", hook=hook, sharding=one)
