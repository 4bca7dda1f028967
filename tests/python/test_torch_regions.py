"""Opaque regions and compiled code."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import tapedeck
import torch
from test_torch_sessions import BATCH, BUDGET, WIDTH, check, layers, plain_step, run, same
from torch import Tensor, nn


def recorded(hook: str, tape: str, step: Callable[[], Any]) -> tapedeck.Trace:
    with tapedeck.record(tape, hook=hook) as recording:
        step()
    recording.close()
    return tapedeck.open(tape).trace()


def op(trace: tapedeck.Trace, name: str) -> int:
    return trace.op_names().index(name)


def opaque(trace: tapedeck.Trace) -> list[str]:
    return [name for name, one in zip(trace.op_names(), trace.ops["opaque"]) if one]


@tapedeck.skip_offload
def middle(x: Tensor) -> Tensor:
    return x.sin().cos().exp()


def test_one_op_forward_and_one_backward(hook: str, tape: str) -> None:
    x = torch.ones(8, requires_grad=True)
    trace = recorded(hook, tape, lambda: middle(x.mul(2)).mul(3).sum().backward())
    names = trace.op_names()
    assert opaque(trace) == ["middle_fwd", "middle_bwd"]
    assert (
        names.index("aten.mul.Tensor") < names.index("middle_fwd") < names.index("aten.sum.default") < names.index("middle_bwd")
    )
    assert not {"aten.sin.default", "aten.cos.default", "aten.exp.default"} & set(names)
    assert names[names.index("middle_bwd") + 1] == "aten.mul.Tensor"  # of the first mul: the region ended before it
    assert torch.equal(x.grad, torch.autograd.grad((x.mul(2).sin().cos().exp().mul(3).sum()), x)[0])


def test_the_outputs_are_activations(hook: str, tape: str) -> None:
    x = torch.ones(8, requires_grad=True)
    trace = recorded(hook, tape, lambda: middle(x.mul(2)).mul(3).sum().backward())
    activation = dict(zip(trace.storages["sid"], trace.storages["activation"]))
    for name in ("middle_fwd", "middle_bwd"):
        outputs = trace.outputs[trace.outputs["op"] == op(trace, name)]
        assert len(outputs) == 1 and activation[outputs["sid"][0]], name
    assert trace.ops["leaves"][op(trace, "middle_fwd")] == 1


def test_what_a_region_reads_is_its_ops(hook: str, tape: str) -> None:
    x = torch.ones(8, requires_grad=True)

    def step() -> None:
        captured, argument = x.mul(2), x.mul(3)

        @tapedeck.skip_offload(name="outer")
        def region(value: Tensor) -> Tensor:
            return value * captured

        region(argument).sum().backward()

    trace = recorded(hook, tape, step)
    made = [int(trace.outputs["sid"][trace.outputs["op"] == i][0]) for i in range(2)]
    for name in ("outer_fwd", "outer_bwd"):
        accesses = trace.accesses[trace.accesses["op"] == op(trace, name)]
        assert set(made) <= set(accesses["sid"].tolist()), name


def test_what_runs_inside_may_change(hook: str, tape: str) -> None:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second, self.calls = layers(4), layers(4), 0

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.inside(self.first(x)))

        @tapedeck.skip_offload
        def inside(self, x: Tensor) -> Tensor:
            self.calls += 1
            for _ in range(self.calls):
                x = x.sin()
            return x

    check(plain_step, hook, tape, model=Changing)


def test_regions_nest_and_the_outermost_counts(hook: str, tape: str) -> None:
    x = torch.ones(8, requires_grad=True)

    @tapedeck.skip_offload
    def outer(value: Tensor) -> Tensor:
        return middle(middle(value).mul(2))

    trace = recorded(hook, tape, lambda: outer(x.mul(2)).sum().backward())
    assert opaque(trace) == ["outer_fwd", "outer_bwd"]


def test_a_module_is_opaque(hook: str, tape: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.region, self.last = layers(4), tapedeck.skip_offload(layers(2), name="region"), layers(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.region(self.first(x)))

    check(plain_step, hook, tape, model=Model)
    trace = tapedeck.open(tape).trace()
    assert opaque(trace) == ["region_fwd", "region_bwd"]
    parameters = trace.accesses[trace.accesses["op"] == op(trace, "region_fwd")]
    assert len(parameters) >= 5  # two weights, two biases and its input


def test_a_captured_storage_that_is_away(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        early = model[:2](x)
        late = model[2:](early)

        @tapedeck.skip_offload
        def region(value: Tensor) -> Tensor:
            return value * early

        region(late).square().mean().backward()

    check(step, hook, tape)


def test_sibling_regions_whose_backward_passes_interleave(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        y = model[:6](x)
        left, right = middle(y), middle(y * 2)
        model[6:](left + right * left).square().mean().backward()

    check(step, hook, tape)


def test_a_residual_around_a_region(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        for i in range(0, 12, 2):
            x = x + middle(model[i : i + 2](x))
        x.square().mean().backward()

    check(step, hook, tape)


def test_a_backward_pass_that_stops_inside(hook: str, tape: str) -> None:
    inner: list[Tensor] = []

    @tapedeck.skip_offload
    def region(value: Tensor) -> Tensor:
        inner.append(value.sin())
        return inner[-1].cos()

    def step(model: nn.Module, x: Tensor) -> None:
        y = region(model[:6](x))
        loss = model[6:](y).square().mean()
        torch.autograd.grad(loss, inner.pop(), retain_graph=True)
        loss.backward()

    check(step, hook, tape)


def test_outputs_that_are_used_in_place(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        y = model[:6](x)
        z = tapedeck.skip_offload(lambda v: v.mul(2), name="twice")(y)
        z += y
        model[6:](z).square().mean().backward()

    check(step, hook, tape)


def test_inputs_that_are_changed_inside(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        y = model[:6](x) * 2
        tapedeck.skip_offload(lambda v: v.add_(1), name="more")(y)
        model[6:](y).square().mean().backward()

    check(step, hook, tape)


def test_a_region_whose_inputs_need_no_gradient(hook: str, tape: str) -> None:
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words = tapedeck.skip_offload(nn.Embedding(16, WIDTH), name="words")
            self.rest = layers()

        def forward(self, x: Tensor) -> Tensor:
            return self.rest(self.words(x[:, 0].abs().long() % 16))

    check(plain_step, hook, tape, model=Embedded)
    assert opaque(tapedeck.open(tape).trace()) == ["words_fwd", "words_bwd"]


def test_a_region_without_gradients(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        with torch.no_grad():
            x = middle(x)
        plain_step(model, x)

    check(step, hook, tape)
    assert opaque(tapedeck.open(tape).trace()) == ["middle_fwd"]


def test_outputs_of_any_shape(hook: str, tape: str) -> None:
    @tapedeck.skip_offload
    def region(value: Tensor, **named: Any) -> dict[str, Any]:
        return {"a": value.sin(), "b": [value.cos(), 3, None], "c": named["scale"] * 2}

    def step(model: nn.Module, x: Tensor) -> None:
        y = model(x)
        made = region(y, scale=y)
        assert made["b"][1:] == [3, None]
        (made["a"] + made["b"][0] * made["c"]).square().mean().backward()

    check(step, hook, tape)
    trace = tapedeck.open(tape).trace()
    assert trace.ops["leaves"][op(trace, "region_fwd")] == 5


def test_an_exception_inside_a_region_that_is_caught(hook: str, tape: str) -> None:
    @tapedeck.skip_offload
    def fails(value: Tensor) -> Tensor:
        value.sin()
        raise KeyError

    def step(model: nn.Module, x: Tensor) -> None:
        y = model[:6](x)
        with pytest.raises(KeyError):
            fails(y)
        model[6:](y).square().mean().backward()

    plain, _ = run(step, None)
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    assert same(plain, run(step, session)[0])
    assert "fails_fwd" not in tapedeck.open(tape).names


def test_an_exception_inside_a_region_that_leaves_the_step(hook: str, tape: str) -> None:
    @tapedeck.skip_offload
    def fails(value: Tensor) -> Tensor:
        raise KeyError

    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    with pytest.raises(KeyError), session:
        fails(torch.ones(3))
    plain, _ = run(plain_step, None)
    assert same(plain, run(plain_step, session)[0])


def test_outside_of_a_session_it_is_a_plain_call() -> None:
    x = torch.ones(3, requires_grad=True)
    middle(x).sum().backward()
    assert x.grad is not None and middle.__name__ == "middle"


# ---- torch.compile ----


@pytest.fixture
def compiled() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = layers(4)
    inner = torch.compile(nn.Sequential(model[2], model[3], model[4], model[5]))

    def step(_: nn.Module, x: Tensor) -> None:
        model.zero_grad()
        y = inner(model[:2](x))
        model[6:](y).square().mean().backward()
        gradients.append(model[0].weight.grad.clone())

    gradients: list[Tensor] = []
    return step, gradients


def test_compiled_graphs_are_ops(tape: str, compiled: Any) -> None:
    step, gradients = compiled
    run(step, None)
    plain = gradients[:]
    gradients.clear()
    budget = BATCH * WIDTH * 4 * 7
    session = tapedeck.Session(tape, budget=budget, hook="native")
    _, reports = run(step, session)
    assert same(plain, gradients)
    replayed = [report for report in reports if report.replayed]
    assert len(replayed) >= 2 and not any(report.diverged_ops for report in replayed), "\n".join(map(str, reports))
    assert all(report.measured_peak_bytes <= budget for report in replayed)
    names = tapedeck.open(tape).trace().op_names()
    assert names.count("inductor.graph") == 2


def test_code_that_is_compiled_inside_a_step(tape: str, compiled: Any) -> None:
    step, gradients = compiled
    session = tapedeck.Session(tape, budget=BUDGET, hook="native", max_warmups=3)
    run(step, session)
    inside = gradients[:]
    gradients.clear()
    run(step, None)
    assert same(inside, gradients)
    assert "inductor.graph" in tapedeck.open(tape).names


def test_compiled_code_as_an_opaque_region(hook: str, tape: str) -> None:
    torch._dynamo.reset()
    model = layers(4)
    region = tapedeck.skip_offload(torch.compile(lambda x: x.sin().cos()), name="compiled")

    def step(_: nn.Module, x: Tensor) -> None:
        model.zero_grad()
        model[4:](region(model[:4](x))).square().mean().backward()
        gradients.append(model[0].weight.grad.clone())

    gradients: list[Tensor] = []
    run(step, None)
    plain = gradients[:]
    gradients.clear()
    session = tapedeck.Session(tape, budget=BATCH * WIDTH * 4 * 6, hook=hook)
    run(step, session)
    assert all(torch.allclose(a, b) for a, b in zip(plain, gradients)) if hook == "python" else same(plain, gradients)
    assert opaque(tapedeck.open(tape).trace()) == ["compiled_fwd", "compiled_bwd"]
