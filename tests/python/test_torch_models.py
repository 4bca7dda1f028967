"""Real models inside a budget: the same bits as without, and never over it."""

from __future__ import annotations

import pytest
import tapedeck
from models import CASES, Case, train

STEPS = 8


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_bits_inside_the_budget(case: Case, hook: str, tape: str) -> None:
    plain = train(case, steps=STEPS)
    with_record = tapedeck.record(tape, hook=hook)
    assert train(case, with_record, steps=3).losses == plain.losses[:3]
    info = tapedeck.open(tape).info()
    budgets = [b for b in (info["peak_bytes"] * 8 // 10, info["peak_bytes"] * 6 // 10) if b >= info["floor_bytes"]]
    assert budgets, f"floor {info['floor_bytes']} of {info['peak_bytes']}"
    for budget in budgets:
        path = f"{tape}.{budget}"
        session = tapedeck.Session(path, budget=budget, hook=hook)
        session.hook.measure(True)
        reports: list[tapedeck.Report] = []
        budgeted = train(case, session, STEPS, lambda: reports.append(session.report()))
        assert budgeted.same_bits(plain)
        replayed = [report for report in reports if report.replayed]
        assert len(replayed) >= 3
        for report in replayed:
            assert 0 < report.measured_peak_bytes <= budget, str(report)
            assert not report.diverged_ops, report.divergence
        assert any(report.d2h_bytes for report in replayed)
        session.close()
