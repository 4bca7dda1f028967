"""What a tape says of storages: identity, views, mutation, leaves, ends. One behaviour of both hooks."""

from __future__ import annotations

import gc
from typing import Any, Callable

import pytest
import tapedeck
import torch
from torch.nn import functional as F


class Seen:
    """The newest trace of a tape, by op."""

    def __init__(self, path: str) -> None:
        with tapedeck.open(path) as tape:
            self.trace = tape.trace()
        self.names = self.trace.op_names()
        self.storages = {int(s["sid"]): s for s in self.trace.storages}

    def op(self, name: str, which: int = 0) -> int:
        return [i for i, found in enumerate(self.names) if found == name][which]

    def accesses(self, op: int) -> list[tuple[int, str]]:
        found = self.trace.accesses[self.trace.accesses["op"] == op]
        return [(int(a["sid"]), "W" if a["write"] else "R") for a in found]

    def reads(self, op: int) -> list[int]:
        return [sid for sid, kind in self.accesses(op) if kind == "R"]

    def writes(self, op: int) -> list[int]:
        return [sid for sid, kind in self.accesses(op) if kind == "W"]

    def out(self, op: int) -> list[tuple[int, int]]:
        found = self.trace.outputs[self.trace.outputs["op"] == op]
        return [(int(o["leaf"]), int(o["sid"])) for o in found]

    def leaves(self, op: int) -> int:
        return int(self.trace.ops["leaves"][op])


@pytest.fixture
def see(hook: str, tape: str) -> Callable[..., Seen]:
    def record(step: Callable[[], Any], **options: Any) -> Seen:
        with tapedeck.record(tape, hook=hook, **options) as recording:
            step()
        recording.close()
        return Seen(tape)

    return record


def test_a_view_shares_its_storage_and_is_no_write(see: Callable[..., Seen]) -> None:
    seen = see(lambda: torch.ones(4, 6).exp().view(2, 12).t()[0].sum())
    exp = seen.out(seen.op("aten.exp.default"))[0][1]
    for name in ("aten.view.default", "aten.t.default", "aten.select.int"):
        op = seen.op(name)
        assert seen.accesses(op) == [(exp, "R")] and seen.out(op) == [(0, exp)]


def test_in_place_is_a_write_and_no_new_activation(see: Callable[..., Seen]) -> None:
    seen = see(lambda: torch.ones(4).exp().mul_(2).add_(torch.ones(4)))
    exp = seen.out(seen.op("aten.exp.default"))[0][1]
    add = seen.op("aten.add_.Tensor")
    assert (exp, "W") in seen.accesses(add) and (exp, "R") not in seen.accesses(add)
    assert seen.writes(seen.op("aten.mul_.Tensor")) == [exp]
    assert seen.out(add) == [(0, exp)]


def test_out_arguments_are_written(see: Callable[..., Seen]) -> None:
    def step() -> None:
        a, b = torch.ones(4), torch.zeros(4)
        torch.add(a, a, out=b)

    seen = see(step)
    op = seen.op("aten.add.out")
    assert seen.writes(op) == [seen.out(seen.op("aten.zeros.default"))[0][1]]


def test_lists_are_opened_in_place(see: Callable[..., Seen]) -> None:
    def step() -> None:
        changed, read = [torch.ones(2), torch.ones(3)], [torch.ones(2), torch.ones(3)]
        torch._foreach_add_(changed, read)
        torch._foreach_mul(read, 2.0)

    seen = see(step)
    made = [sid for op in range(4) for _, sid in seen.out(op)]
    op = seen.op("aten._foreach_add_.List")
    assert seen.writes(op) == made[:2] and seen.reads(op) == made[2:]
    assert seen.leaves(op) == 0
    op = seen.op("aten._foreach_mul.Scalar")
    assert seen.leaves(op) == 2 and [leaf for leaf, _ in seen.out(op)] == [0, 1]


def test_operators_that_write_without_saying_so(see: Callable[..., Seen]) -> None:
    norm = torch.nn.BatchNorm1d(3)
    x = torch.ones(5, 3)

    def step() -> None:
        norm.train()(x)
        norm.eval()(x)

    seen = see(step)
    training, evaluating = (seen.op("aten.native_batch_norm.default", i) for i in range(2))
    changed = seen.writes(training)
    statistics = {sid for sid in changed if not seen.storages[sid]["activation"]}
    assert len(statistics) == 2
    assert statistics <= set(seen.reads(evaluating)) and not statistics & set(seen.writes(evaluating))


def test_leaves_of_every_kind(see: Callable[..., Seen]) -> None:
    def step() -> None:
        x = torch.ones(4, 4, requires_grad=True)
        torch.max(x, 1)  # two tensors
        x.sum().item()  # a number
        torch.split(x, 2)  # a list
        F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2, requires_grad=True)).sum().backward()  # a gradient that is None

    seen = see(step)
    assert seen.leaves(seen.op("aten.max.dim")) == 2
    assert seen.leaves(seen.op("aten._local_scalar_dense.default")) == 1
    assert seen.out(seen.op("aten._local_scalar_dense.default")) == []
    assert seen.leaves(seen.op("aten.split.Tensor")) == 2
    op = seen.op("aten.convolution_backward.default")
    assert seen.leaves(op) == 3 and [leaf for leaf, _ in seen.out(op)] == [1]


def test_an_op_without_outputs(see: Callable[..., Seen]) -> None:
    seen = see(lambda: torch._foreach_zero_([torch.ones(2)]))
    assert seen.leaves(seen.op("aten._foreach_zero_.default")) == 0


def test_wrapped_numbers_have_no_storage(see: Callable[..., Seen]) -> None:
    x = torch.ones(3)
    seen = see(lambda: x + 2.5)
    op = seen.op("aten.add.Tensor")
    assert len(seen.reads(op)) == 1 and len(seen.storages) == 2


def test_sparse_tensors_have_no_storage(see: Callable[..., Seen]) -> None:
    embedding = torch.nn.Embedding(8, 4, sparse=True)

    def step() -> None:
        embedding(torch.tensor([1, 2])).sum().backward()
        sparse = torch.eye(4).to_sparse()
        torch.sparse.mm(sparse, torch.ones(4, 4)).sum()

    seen = see(step)
    assert seen.out(seen.op("aten._to_sparse.default")) == []


def test_storages_of_no_bytes(see: Callable[..., Seen]) -> None:
    seen = see(lambda: torch.empty(0).exp())
    made = seen.out(seen.op("aten.exp.default"))[0][1]
    assert seen.storages[made]["bytes"] == 0


def test_other_devices_have_no_sid(see: Callable[..., Seen]) -> None:
    meta = torch.ones(4, device="meta")

    def step() -> None:
        meta.exp()
        torch.ones(4).exp()

    seen = see(step)
    assert seen.names == ["aten.ones.default", "aten.exp.default"]
    assert len(seen.storages) == 2


def test_an_address_that_comes_back_is_another_storage(see: Callable[..., Seen]) -> None:
    addresses = set()

    def step() -> None:
        for _ in range(50):
            addresses.add(torch.ones(1000).exp().untyped_storage()._cdata)

    seen = see(step)
    made = [sid for op, name in enumerate(seen.names) if name == "aten.exp.default" for _, sid in seen.out(op)]
    assert len(set(made)) == 50 > len(addresses)


def test_ends_are_seen_at_once(see: Callable[..., Seen]) -> None:
    def step() -> None:
        a = torch.ones(4)
        b = a.exp()
        del a
        b.sin()
        b.cos()
        del b
        torch.zeros(1)

    seen = see(step)
    ones, exp = (seen.out(seen.op(name))[0][1] for name in ("aten.ones.default", "aten.exp.default"))
    assert seen.storages[ones]["freed_before_op"] == seen.op("aten.sin.default")
    assert seen.storages[exp]["freed_before_op"] == seen.op("aten.zeros.default")


def test_retained_is_what_lives_when_the_step_ends(see: Callable[..., Seen]) -> None:
    kept = []

    def step() -> None:
        x = torch.ones(4, requires_grad=True)
        y = x.exp()
        kept.append(y.detach()[1:])
        y.sin().sum().backward()
        kept.append(x)

    seen = see(step)
    retained = {sid for sid, storage in seen.storages.items() if storage["retained"]}
    assert seen.out(seen.op("aten.exp.default"))[0][1] in retained
    assert seen.out(seen.op("aten.sin.default"))[0][1] not in retained
    gc.collect()


def test_a_cycle_of_objects_ends_when_it_is_collected(see: Callable[..., Seen]) -> None:
    def step() -> None:
        gc.collect()
        holder: dict[str, Any] = {"tensor": torch.ones(4).exp()}
        holder["self"] = holder
        del holder
        torch.zeros(1)
        gc.collect()
        torch.zeros(1)

    seen = see(step)
    exp = seen.out(seen.op("aten.exp.default"))[0][1]
    assert seen.storages[exp]["freed_before_op"] == seen.op("aten.zeros.default", 1)


def test_an_activation_that_is_given_other_bytes(see: Callable[..., Seen]) -> None:
    def step() -> None:
        x = torch.ones(4).exp()
        x.resize_(4000)
        x.fill_(1)
        assert x.sum().item() == 4000

    seen = see(step)
    before = seen.out(seen.op("aten.exp.default"))[0][1]
    after = seen.writes(seen.op("aten.fill_.Scalar"))[0]
    assert before != after and seen.storages[after]["bytes"] == 16000


def test_a_storage_of_the_caller_that_grows(see: Callable[..., Seen]) -> None:
    buffer = torch.empty(0)
    seen = see(lambda: torch.add(torch.ones(100), 1, out=buffer))
    op = seen.op("aten.add.out")
    assert seen.storages[seen.writes(op)[0]]["bytes"] == 400


def test_parameters_and_batches_are_no_activations(see: Callable[..., Seen]) -> None:
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    seen = see(lambda: layer(x).sum().backward())
    op = seen.op("aten.addmm.default")
    assert not any(seen.storages[sid]["activation"] for sid in seen.reads(op))
    assert all(seen.storages[sid]["activation"] for sid in seen.writes(op))


def test_what_an_earlier_step_left_is_no_activation(hook: str, tape: str) -> None:
    kept: list[torch.Tensor] = []
    with tapedeck.record(tape, hook=hook) as recording:
        kept.append(torch.ones(4).exp())
    with recording:
        kept[0].sin()
    seen = Seen(tape)
    assert not seen.storages[seen.reads(0)[0]]["activation"]


def test_two_steps_alike_have_one_digest(hook: str, tape: str) -> None:
    digests = []
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    recording = tapedeck.record(tape, hook=hook)
    for _ in range(3):
        layer.zero_grad()
        with recording:
            layer(x).sum().backward()
        digests.append(tapedeck.open(tape).info()["digest"])
    assert digests[0] == digests[1] == digests[2]


def test_both_hooks_see_one_step_alike(tape: str) -> None:
    layer, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    digests = []
    for hook in ("native", "python"):
        layer.zero_grad()
        with tapedeck.record(tape, hook=hook) as recording:
            F.gelu(layer(x)).sum().backward()
        recording.close()
        digests.append(tapedeck.open(tape).info()["digest"])
    assert digests[0] == digests[1]


def test_the_tape_says_how_it_was_recorded(hook: str, tape: str) -> None:
    layer = torch.nn.Linear(3, 3)
    with tapedeck.record(tape, hook=hook, model=layer) as recording:
        layer(torch.ones(1, 3))
    recording.close()
    meta = tapedeck.open(tape).meta()
    assert meta["hook"] == hook and meta["torch"] == torch.__version__ and meta["device"] == "cpu"
    assert meta["model_key"] == tapedeck.model_key(layer)
