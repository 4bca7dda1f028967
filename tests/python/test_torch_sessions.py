"""Sessions: warm-up, replay, tapes that are there already, what is refused, exceptions, and the kinds of steps that people write."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest
import tapedeck
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

WIDTH, BATCH = 64, 256


def layers(n: int = 6) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(n) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())])


def batches(n: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(BATCH, WIDTH, generator=generator) for _ in range(n)]


BUDGET = BATCH * WIDTH * 4 * 9  # a plain step of `layers` needs more


def run(
    step: Callable[[nn.Module, Tensor], None], session: Any, n: int = 5, model: Any = None
) -> tuple[list[Tensor], list[tapedeck.Report]]:
    """The gradients of each step, and its reports."""
    model = model or layers()
    gradients, reports = [], []
    for x in batches(n):
        model.zero_grad()
        if session is None:
            step(model, x)
        else:
            with session:
                step(model, x)
            reports.append(session.report())
        gradients += [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return gradients, reports


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


def check(
    step: Callable[[nn.Module, Tensor], None], hook: str, tape: str, budget: int = BUDGET, model: Callable[[], nn.Module] = layers
) -> list[tapedeck.Report]:
    """The same bits inside the budget as without, some steps of it replayed and all ops followed."""
    plain, _ = run(step, None, model=model())
    session = tapedeck.Session(tape, budget=budget, hook=hook)
    budgeted, reports = run(step, session, model=model())
    session.close()
    assert same(plain, budgeted)
    replayed = [report for report in reports if report.replayed]
    assert len(replayed) >= 2 and not any(report.diverged_ops for report in replayed), "\n".join(map(str, reports))
    assert all(report.measured_peak_bytes <= budget for report in replayed), "\n".join(map(str, replayed))
    return reports


def plain_step(model: nn.Module, x: Tensor) -> None:
    model(x).square().mean().backward()


# ---- warm-up and replay ----


def test_two_steps_alike_and_it_replays(hook: str, tape: str) -> None:
    reports = check(plain_step, hook, tape)
    assert [report.replayed for report in reports] == [False, False, True, True, True]
    assert all(report.d2h_bytes > 0 for report in reports)


def test_the_warm_up_stays_inside_the_budget_but_for_one_ops_outputs(hook: str, tape: str) -> None:
    reports = check(plain_step, hook, tape)
    assert 0 <= reports[0].overshoot_bytes <= BATCH * WIDTH * 4


def test_a_tape_that_is_there_is_replayed_at_once(hook: str, tape: str) -> None:
    check(plain_step, hook, tape)
    plain, _ = run(plain_step, None)
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook, policy="strict")
    again, reports = run(plain_step, session)
    assert same(plain, again) and all(report.replayed for report in reports)
    other = tapedeck.Session(tape, budget="70%", hook=hook)
    assert same(plain, run(plain_step, other)[0]) and other.report().replayed


def test_record_then_replay(hook: str, tape: str) -> None:
    plain, _ = run(plain_step, None)
    recording = tapedeck.record(tape, hook=hook)
    assert same(plain, run(plain_step, recording)[0])
    with pytest.raises(tapedeck.ArgumentError, match="has no schedule"):
        tapedeck.replay(tape, hook=hook)
    replay = tapedeck.replay(tape, budget="60%", hook=hook, policy="strict")
    replayed, reports = run(plain_step, replay)
    assert same(plain, replayed) and all(report.replayed and report.d2h_bytes for report in reports)
    again = tapedeck.replay(tape, hook=hook)  # the schedule is in the tape now
    assert again.budget == replay.budget


def test_the_model_is_named(hook: str, tape: str) -> None:
    model = layers()
    run(plain_step, tapedeck.record(tape, hook=hook, model=model), 1)
    with pytest.raises(tapedeck.StateError, match="another model"):
        tapedeck.replay(tape, budget="80%", hook=hook, model=layers(2))
    with pytest.raises(tapedeck.StateError, match="another model"):
        tapedeck.Session(tape, budget="80%", hook=hook, key="mine")
    tapedeck.replay(tape, budget="80%", hook=hook, model=model)


def test_the_other_hook_is_refused_with_a_way_out(hook: str, tape: str) -> None:
    other = {"native": "python", "python": "native"}[hook]
    run(plain_step, tapedeck.record(tape, hook=hook), 1)
    with pytest.raises(tapedeck.StateError, match=f"pass hook='{hook}'"):
        tapedeck.replay(tape, budget="80%", hook=other)
    assert tapedeck.replay(tape, budget="80%", hook="auto").hook_name == hook


def test_strict_refuses_another_step(hook: str, tape: str) -> None:
    run(plain_step, tapedeck.record(tape, hook=hook), 1)
    replay = tapedeck.replay(tape, budget="80%", hook=hook, policy="strict")
    model, x = layers(), torch.ones(BATCH, WIDTH)
    with pytest.raises(tapedeck.DivergedError, match="aten.relu.default"), replay:
        model(x).relu()
    plain, _ = run(plain_step, None, 2)
    assert same(plain, run(plain_step, replay, 2)[0])  # the next step is clean


@pytest.mark.parametrize("policy", ["resync", "passthrough", "rerecord"])
def test_another_step_keeps_the_bits(hook: str, tape: str, policy: Any) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        y = model[:4](x)
        if x[0, 0] > 0:  # some batches take a way of their own
            y = y.sin().cos()
        model[4:](y).square().mean().backward()

    plain, _ = run(step, None, 12)
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook, policy=policy)
    budgeted, reports = run(step, session, 12)
    assert same(plain, budgeted)
    assert any(report.replayed for report in reports)


def test_bits_stay_the_same_when_shapes_change(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        plain_step(model, x[: 128 if x[0, 0] > 0 else BATCH])

    plain, _ = run(step, None, 12)
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    assert same(plain, run(step, session, 12)[0])


# ---- what is refused, and exceptions ----


def test_a_budget_that_cannot_be_met(hook: str, tape: str) -> None:
    session = tapedeck.Session(tape, budget=1000, hook=hook)
    with pytest.raises(tapedeck.BudgetError, match="no room on the device"):
        run(plain_step, session, 1)


def test_wrong_arguments(tape: str, tmp_path: Path) -> None:
    with pytest.raises(tapedeck.ArgumentError, match="hook is"):
        tapedeck.record(tape, hook="other")  # type: ignore[arg-type]
    with pytest.raises(tapedeck.ArgumentError, match="policy is one of"):
        tapedeck.Session(tape, budget=1, policy="other")  # type: ignore[arg-type]
    with pytest.raises(tapedeck.ArgumentError, match="not known before there is a tape"):
        tapedeck.Session(tape, budget="50%")
    with pytest.raises(tapedeck.ArgumentError, match="5 elephants"):
        tapedeck.Session(tape, budget="5 elephants")
    with pytest.raises(tapedeck.FileError):
        tapedeck.record(tmp_path / "no" / "such" / "folder.tape")
    with pytest.raises(tapedeck.TapedeckError):
        tapedeck.replay(tmp_path / "absent.tape", budget=1)
    (tmp_path / "text.tape").write_text("no tape")
    with pytest.raises(tapedeck.FormatError):
        tapedeck.replay(tmp_path / "text.tape", budget=1)


def test_sessions_do_not_nest(hook: str, tape: str) -> None:
    outer, inner = tapedeck.record(tape, hook=hook), tapedeck.record(tape + "2", hook=hook)
    with outer:
        with pytest.raises(tapedeck.StateError, match="sessions do not nest"), inner:
            pass
        with pytest.raises(tapedeck.StateError, match="sessions do not nest"), outer:
            pass
        assert tapedeck.active() is outer
    assert tapedeck.active() is None


def test_an_exception_leaves_the_step(hook: str, tape: str) -> None:
    plain, _ = run(plain_step, None)
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    kept: list[Tensor] = []
    for n in (3, 20):  # in the warm-up, and in the replay
        with pytest.raises(KeyError), session:
            y = batches(1)[0]
            for _ in range(n):
                y = y.sin()
                kept.append(y)
            raise KeyError
        for before, after in zip(kept, kept[1:n]):
            assert torch.equal(before.sin(), after)  # what was made is whole
        kept.clear()
        budgeted, _ = run(plain_step, session)
        assert same(plain, budgeted)


def test_an_exception_of_an_operator_that_is_caught(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        with pytest.raises(RuntimeError):
            x @ torch.ones(3, 3)
        plain_step(model, x)

    check(step, hook, tape)
    assert tapedeck.open(tape).trace().op_names()[:2] == ["aten.ones.default", "aten.t.default"]


def test_a_session_can_be_closed(hook: str, tape: str) -> None:
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    run(plain_step, session, 1)
    session.close()
    session.close()
    with pytest.raises(tapedeck.StateError, match="closed"), session:
        pass


def test_an_empty_step(hook: str, tape: str) -> None:
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    for _ in range(4):
        with session:
            pass
    assert session.report().ops == 0


def test_a_mark(hook: str, tape: str) -> None:
    with tapedeck.record(tape, hook=hook) as recording:
        y = torch.ones(3).exp()
        recording.mark("forward_end")
        y.sum()
    assert tapedeck.open(tape).trace().marks == [("forward_end", 2)]


def test_the_rank_in_the_path(hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(tapedeck.ArgumentError, match="RANK"):
        tapedeck.record(tmp_path / "step.{rank}.tape", hook=hook)
    monkeypatch.setenv("RANK", "3")
    with tapedeck.record(tmp_path / "step.{rank}.tape", hook=hook):
        torch.ones(2).exp()
    assert (tmp_path / "step.3.tape").exists()


# ---- steps of many kinds ----


def test_gradient_accumulation(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        for part in x.chunk(4):
            plain_step(model, part.repeat(4, 1))

    check(step, hook, tape)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(hook: str, tape: str, reentrant: bool) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        x = x.clone().requires_grad_()
        for i in range(0, 12, 4):
            x = checkpoint(model[i : i + 4], x, use_reentrant=reentrant)
        x.square().mean().backward()

    check(step, hook, tape)


def test_autocast(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
        y.float().square().mean().backward()

    check(step, hook, tape)


def test_several_dtypes(hook: str, tape: str) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.low, self.high = layers(3).to(torch.bfloat16), layers(3).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.high(self.low(x.bfloat16()).double())

    check(plain_step, hook, tape, model=Mixed)


def test_double_backward(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model(x).square().mean(), x, create_graph=True)
        slope.square().sum().backward()

    check(step, hook, tape, budget=BUDGET * 3)


@pytest.mark.parametrize("foreach", [True, False])
def test_an_optimizer_inside_the_step(hook: str, tape: str, foreach: bool) -> None:
    def trained(session: Any) -> list[Tensor]:
        model = layers()
        optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)
        for x in batches(8):
            if session is None:
                plain_step(model, x)
                optimizer.step()
                optimizer.zero_grad()
            else:
                with session:
                    plain_step(model, x)
                    optimizer.step()
                    optimizer.zero_grad()
        return [p.detach().clone() for p in model.parameters()]

    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    assert same(trained(None), trained(session))
    assert session.report().replayed and session.report().measured_peak_bytes <= BUDGET


def test_inference_mode_and_no_grad(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        with torch.inference_mode():
            model(x).sum()
        with torch.no_grad():
            model(x).sum()
        plain_step(model, x)

    check(step, hook, tape)


@tapedeck.skip_offload
def opaque(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    return function(x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * 2 + x * 0


def with_flop_counter(model: nn.Module, x: Tensor) -> None:
    with FlopCounterMode(display=False) as counter:
        plain_step(model, x)
    assert counter.get_total_flops() > 0


def with_saved_tensors_elsewhere(model: nn.Module, x: Tensor) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
        y = model[:4](x)
    model[4:](y).square().mean().backward()


def with_anomaly_detection(model: nn.Module, x: Tensor) -> None:
    with torch.autograd.detect_anomaly(check_nan=True):
        plain_step(model, x)


def with_forward_gradients(model: nn.Module, x: Tensor) -> None:
    y, tangent = torch.func.jvp(model, (x,), (torch.ones_like(x),))
    (y + tangent).square().mean().backward()


def with_two_backward_passes(model: nn.Module, x: Tensor) -> None:
    loss = model(x).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()


def with_clipped_gradients(model: nn.Module, x: Tensor) -> None:
    plain_step(model, x)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)


def with_hooks_on_gradients(model: nn.Module, x: Tensor) -> None:
    y = model[:4](x)
    y.register_hook(lambda gradient: gradient * 2)
    y.retain_grad()
    model[4:](y).square().mean().backward()
    assert y.grad is not None


def with_a_function_of_its_own(model: nn.Module, x: Tensor) -> None:
    model[4:](Doubled.apply(model[:4](x))).square().mean().backward()


def with_a_second_owner_of_a_storage(model: nn.Module, x: Tensor) -> None:
    y = model(x)
    other = torch.empty(0).set_(y.detach().untyped_storage())
    (y.square().mean() + other.mean() * 0).backward()


def with_dropout(model: nn.Module, x: Tensor) -> None:
    F.dropout(model(x), 0.5).square().mean().backward()


def with_checkpoint_in_a_region(model: nn.Module, x: Tensor) -> None:
    opaque(lambda y: checkpoint(model[2:8], y, use_reentrant=False), model[:2](x)).square().mean().backward()


def with_a_region_in_a_checkpoint(model: nn.Module, x: Tensor) -> None:
    for reentrant in (False, True):
        y = checkpoint(lambda y: opaque(model[2:8], y), model[:2](x), use_reentrant=reentrant)
        model[8:](y).square().mean().backward()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind", [value for name, value in list(globals().items()) if name.startswith("with_")], ids=lambda kind: kind.__name__
)
def test_steps_of_many_kinds(hook: str, tape: str, kind: Callable[[nn.Module, Tensor], None]) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        torch.manual_seed(3)
        kind(model, x)

    recording = tapedeck.record(tape, hook=hook)
    run(step, recording, 3)
    info = tapedeck.open(tape).info()
    check(step, hook, tape + "2", budget=max(info["floor_bytes"], info["peak_bytes"] * 7 // 10))


def test_vmap_and_functional_gradients(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        weight = model[0].weight
        rows = torch.vmap(lambda row: (row * 2).sin().sum())(weight)
        slope = torch.func.grad(lambda w: F.linear(x, w).square().mean())(weight.detach())
        (plain := model(x).square().mean() + rows.mean() + slope.sum() * 0).backward()
        assert plain.ndim == 0

    check(step, hook, tape)


def test_complex_and_conjugate_tensors(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        y = torch.fft.rfft(model(x))
        (y * y.conj()).real.mean().backward()

    check(step, hook, tape)


def test_what_is_kept_over_steps(hook: str, tape: str) -> None:
    kept: list[Tensor] = []

    def step(model: nn.Module, x: Tensor) -> None:
        y = model(x)
        if kept:
            y = y + kept.pop().mean()
        kept.append(y.detach())
        y.square().mean().backward()

    plain, _ = run(step, None)
    kept.clear()
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    assert same(plain, run(step, session)[0])
    assert session.report().replayed


def test_tensors_that_other_threads_let_go(hook: str, tape: str) -> None:
    import threading

    def step(model: nn.Module, x: Tensor) -> None:
        y = model(x)
        box = [y.sin(), y.cos()]
        thread = threading.Thread(target=box.clear)
        thread.start()
        y.square().mean().backward()
        thread.join()

    plain, _ = run(step, None)
    session = tapedeck.Session(tape, budget=BUDGET, hook=hook)
    assert same(plain, run(step, session)[0])


def test_operators_of_other_threads_join_the_step(hook: str, tape: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with tapedeck.record(tape, hook=hook) as recording:
        x = torch.ones(8).exp()

        def work(_: int) -> Tensor:
            with recording.join():
                for _ in range(50):
                    y = x.sin()
            return y

        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(work, range(3)))
    assert all(torch.equal(result, x.sin()) for result in results)
    names = tapedeck.open(tape).trace().op_names()
    assert names.count("aten.sin.default") == 150
    assert len(set(tapedeck.open(tape).outputs["sid"].tolist())) == 152


def test_a_thread_that_did_not_join_reads_what_is_away(tape: str) -> None:
    import threading

    from test_torch_reading import SIZE, away

    errors: list[str] = []
    with tapedeck.record(tape, hook="native", budget=SIZE * 4 * 3):
        tensor = away()

        def work() -> None:
            try:
                tensor.sum()
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(errors) == 1 and "session.restore(tensor)" in errors[0]


def test_a_sparse_gradient(hook: str, tape: str) -> None:
    class Sparse(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.words, self.rest = nn.Embedding(16, WIDTH, sparse=True), layers()

        def forward(self, x: Tensor) -> Tensor:
            return self.rest(self.words(x[:, 0].abs().long() % 16))

    def step(model: nn.Module, x: Tensor) -> None:
        plain_step(model, x)
        model.words.weight.grad = model.words.weight.grad.to_dense()  # type: ignore[union-attr]

    check(step, hook, tape, model=Sparse)


def test_sparse_tensors_whose_parts_were_away(hook: str, tape: str) -> None:
    def step(model: nn.Module, x: Tensor) -> None:
        values = x[:, 0].exp()
        places = torch.arange(BATCH)
        sparse = torch.sparse_coo_tensor(torch.stack([places, places]), values, (BATCH, BATCH))
        y = model(x)
        (torch.sparse.mm(sparse, y)).square().mean().backward()

    check(step, hook, tape)
