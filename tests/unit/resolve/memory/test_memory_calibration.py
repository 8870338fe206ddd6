"""A measured start corrects the plan of another one: how far, how surely, and when it is too far away to be asked."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from compiler.plan.memory import GIB
from compiler.resolve.memory import MeasuredStart, Weights, memory_plan
from compiler.resolve.memory.budget import memory_budget
from compiler.resolve.memory.calibration import calibrated
from tests.unit.resolve.memory.test_memory_recorded_cases import CASES, Case


def _start(case: Case) -> MeasuredStart:
    assert case.kv_bytes is not None
    return MeasuredStart(case.id, case.inputs, case.kv_bytes / GIB)


def _is_usable(case: Case) -> bool:
    """Sized by the engine on a known card, from weights that somebody counted."""
    return case.has_card and case.kv_bytes is not None and case.inputs.kv_cache_memory_bytes is None and _weights(case) > 0


def _weights(case: Case) -> int:
    return case.inputs.weights.per_rank or case.inputs.weights.total


def _is_alike(one: Case, other: Case) -> bool:
    """One model on one card; a draft adds less than 5 % to the weights, another checkpoint differs by more."""
    a, b = one.inputs, other.inputs
    same = (a.geometry, a.card, a.tp, a.shape) == (b.geometry, b.card, b.tp, b.shape)
    return same and abs(_weights(one) - _weights(other)) < 0.05 * _weights(one)


PAIRS = [pair for pair in permutations([c for c in CASES if _is_usable(c)], 2) if _is_alike(*pair)]


def test_there_are_pairs_of_several_kinds() -> None:
    assert len(PAIRS) >= 40
    assert any(a.inputs.is_hybrid for a, _ in PAIRS) and any(a.inputs.tp > 1 for a, _ in PAIRS)


@pytest.mark.parametrize(("known", "asked"), PAIRS, ids=[f"{a.id}->{b.id}" for a, b in PAIRS])
def test_one_start_tells_of_the_other_within_its_interval(known: Case, asked: Case) -> None:
    plain = memory_budget(asked.inputs)
    budget, calibration = calibrated(asked.inputs, plain, (_start(known),))
    assert asked.kv_bytes is not None
    assert budget.kv.low <= asked.kv_bytes / GIB <= budget.kv.high
    if calibration is None:
        assert budget == plain
    else:
        assert budget.kv.high - budget.kv.low < plain.kv.high - plain.kv.low
        assert budget.kv.mid - plain.kv.mid == pytest.approx(calibration.measured_gib - calibration.expected_gib)


def test_a_start_at_the_very_settings_gives_its_own_figure() -> None:
    case = next(c for c in CASES if c.id == "x-moe-bf16")
    plan = memory_plan(case.inputs, (_start(case),))
    assert case.kv_bytes is not None
    assert plan.kv_gib.mid == pytest.approx(case.kv_bytes / GIB)
    assert plan.calibration is not None and plan.calibration.distance_gib == 0.0
    assert sum(part.gib for part in plan.parts) == pytest.approx(plan.total_gib)
    assert any(note.startswith("calibrated by x-moe-bf16") for note in plan.notes)


def test_the_nearest_start_is_taken() -> None:
    case = next(c for c in CASES if c.id == "x-moe-bf16")
    far = replace(_start(case), evidence="far", inputs=replace(case.inputs, max_num_seqs=256))
    plan = memory_plan(case.inputs, (far, _start(case)))
    assert plan.calibration is not None and plan.calibration.evidence == case.id


def test_a_start_that_is_too_far_away_or_a_fixed_cache_corrects_nothing() -> None:
    case = next(c for c in CASES if c.id == "x-moe-bf16")
    far = replace(case.inputs, weights=Weights(total=_weights(case) // 2))
    assert memory_plan(case.inputs, (MeasuredStart("far", far, 90.0),)).calibration is None
    assert memory_plan(replace(case.inputs, kv_cache_memory_bytes=GIB), (_start(case),)).calibration is None


def test_tokens_are_turned_into_memory_by_the_layout_of_the_start() -> None:
    case = next(c for c in CASES if c.id == "x-gdn-moe-align")
    start = MeasuredStart("tokens", case.inputs, kv_tokens=int(case.seen["tokens"]))
    assert case.kv_bytes is not None
    assert start.measured_gib == pytest.approx(case.kv_bytes / GIB, rel=0.002)
