"""The expected speed: fits that follow from their records, records that were kept out, and profiles without a number."""

from __future__ import annotations

from math import ceil

import pytest

from compiler.plan import from_json, to_json
from compiler.plan.speed import SpeedFigure, SpeedPlan
from compiler.resolve import resolve_plan
from compiler.resolve.speed import KV_ALONE, KV_TOGETHER, MODEL_FACTOR, SESSION_SPREAD
from compiler.schema.hardware import ModelSpeed
from tests.support import Changes, specset
from tests.unit.resolve import speed_records as records

ROWS = records.rows()
IDS = [f"{name}-{row.model}" for name, row in ROWS]


def speed(profile: str, changes: Changes | None = None) -> SpeedPlan:
    """What a shipped profile with changes expects."""
    return resolve_plan(specset(profile, changes)).speed


def figure(plan: SpeedPlan, kind: str, *, at_least: int = 0) -> SpeedFigure:
    """The first figure of a kind whose prompt is long enough."""
    return next(f for f in plan.figures if f.kind == kind and f.context >= at_least)


def rounded_up(error: float) -> float:
    """An error as a spread is written: two decimals, never less than it is."""
    return ceil(round(error * 100, 3)) / 100


@pytest.mark.parametrize(("name", "row"), ROWS, ids=IDS)
def test_a_row_is_the_fit_of_its_records(name: str, row: ModelSpeed) -> None:
    assert row.solo.efficiency == round(records.solo_efficiency(name, row), 3)
    assert row.solo.spread == rounded_up(max(abs(r.error) for r in records.solo_residuals(name, row)))
    if row.batch is not None:
        efficiency, step = records.batch_law(name, row)
        assert (row.batch.efficiency, row.batch.step_ms) == (round(efficiency, 3), round(step, 2))
        assert row.batch.sessions == max(records.sessions(r) for r in row.batch.evidence)
        assert row.batch.spread == rounded_up(max(abs(r.error) for r in records.batch_residuals(name, row)))
    if row.prefill is not None:
        each, growth = records.prefill_law(row)
        assert (row.prefill.us_per_token, row.prefill.us_per_token_each_1k) == (
            round(each, 1),
            growth if growth is None else round(growth, 3),
        )
        assert row.prefill.spread == rounded_up(max(abs(r.error) for r in records.prefill_residuals(name, row)))


@pytest.mark.parametrize(("name", "row"), ROWS, ids=IDS)
def test_a_row_cites_records_of_its_model_and_hardware_without_speculation(name: str, row: ModelSpeed) -> None:
    cited = {*row.solo.evidence, *(row.batch.evidence if row.batch else ()), *(row.prefill.evidence if row.prefill else ())}
    spec = records.STORE.spec("model", row.model)[0]
    for reference in sorted(cited):
        found = records.record(reference)
        assert found.hardware is not None and f"{found.gpus}x{found.hardware}".removeprefix("1x") == name, reference
        assert found.checkpoint == spec.checkpoint.repo, reference
        assert found.settings.get("speculation", "none") == "none", reference
        assert found.verdict not in ("superseded", "rejected"), reference


def test_shares_of_the_cache_follow_from_their_records() -> None:
    alone, together = records.shares_of_cache()
    assert (round(alone, 2), round(together, 2)) == (KV_ALONE, KV_TOGETHER)
    assert max(abs(r.error) for r in records.slope_of_law()) < 0.05


def test_models_differ_by_the_factor_and_sessions_by_the_spread() -> None:
    efficiencies = [row.solo.efficiency for row in records.hardware("rtx-6000-ada").speed]
    assert rounded_up(max(efficiencies) / min(efficiencies)) == MODEL_FACTOR
    three = records.own("2xa40", "ornith-awq").solo
    assert len({records.record(r).session for r in three.evidence}) == 3
    assert three.spread == SESSION_SPREAD


def test_records_that_calibrate_nothing_lie_inside() -> None:
    found = records.kept_out()
    cited = {r for _, row in ROWS for part in (row.solo, row.batch, row.prefill) if part is not None for r in part.evidence}
    assert not {r.record for _, r, _ in found} & cited
    assert [r.record for _, r, inside in found if not inside] == []
    errors = sorted(abs(r.error) for _, r, _ in found)
    assert len(errors) == 16
    assert errors[len(errors) // 2] < 0.06
    assert errors[-1] < 0.17


def test_a_model_with_records_on_the_hardware() -> None:
    plan = speed("ornith-2xa40")
    assert plan.basis == "same-model"
    alone, long = figure(plan, "solo"), figure(plan, "solo", at_least=2000)
    assert (alone.context, long.context, long.sessions) == (1000, 85_000, 1)
    assert alone.tok_s.low < long.tok_s.high < alone.tok_s.mid
    together = figure(plan, "aggregate")
    assert (together.sessions, together.tok_s.mid > 4 * alone.tok_s.mid) == (6, True)
    assert {"a40-ornith/a40-ornith-bf16-agg-32", "agents/agentbench-v59"} <= set(plan.evidence)
    assert "GB/s" in plan.law


def test_a_model_of_which_the_hardware_has_no_record_gets_a_wide_interval_and_no_prefill() -> None:
    plan, own = speed("ornith-fp8-2xa40"), speed("ornith-2xa40")
    assert (plan.basis, "ornith-awq" in plan.reason) == ("same-hardware", True)
    width, narrow = ((f.tok_s.high / f.tok_s.low) for f in (figure(plan, "solo"), figure(own, "solo")))
    assert width > 1.8 * narrow
    assert "prefill" not in {f.kind for f in plan.figures}


def test_more_sessions_than_the_records_reach_get_no_number() -> None:
    kinds = {f.kind for f in speed("nemotron-ada", {"profile": {"workload.sessions": 9}}).figures}
    assert kinds == {"solo", "prefill"}


def test_a_workload_of_one_or_none() -> None:
    assert {f.kind for f in speed("nemotron-ada", {"profile": {"workload.sessions": 1}}).figures} == {"solo", "prefill"}
    bare = speed("nemotron-ada", {"profile": {"workload": None}})
    assert [(f.kind, f.context) for f in bare.figures] == [("solo", 1000), ("prefill", 0)]
    assert "agents/agentbench-v59" not in bare.evidence


@pytest.mark.parametrize(
    ("profile", "changes", "said"),
    [
        ("qwen38-2xa40", {}, "Speculation (mtp)"),
        ("ornith-2xa40-turboquant", {}, "TurboQuant"),
        ("kimi-linear-a40", {}, "No record"),
        ("flashnext-blackwell", {}, "bytes that this model reads"),
        ("ornith-2xa40", {"profile": {"settings.tensor_parallel_size": 1}}, "share each layer"),
        ("nemotron-ada", {"profile": {"settings.enforce_eager": True}}, "Without CUDA graphs"),
        ("nemotron-ada", {"profile": {"engine_args.cpu_offload_gb": 4}}, "host memory"),
        ("nemotron-ada", {"hardware": {"gpu.bandwidth_gb_s": None}}, "bandwidth"),
        ("nemotron-ada", {"model": {f"quantization.parts.{i}.bytes_read_per_token": 0 for i in range(3)}}, "bytes that this model reads"),
    ],
)
def test_no_evidence_no_number(profile: str, changes: Changes, said: str) -> None:
    plan = speed(profile, changes)
    assert (plan.basis, plan.figures, plan.evidence, plan.law) == ("none", (), (), "")
    assert said in plan.reason


@pytest.mark.parametrize(("experts", "each"), [(0, 0), (6, 6), (4, 6), (128, 0)])
def test_a_mixture_that_is_none_reads_its_experts_once(experts: int, each: int) -> None:
    plan = speed("nemotron-ada", {"model": {"architecture.experts": experts, "architecture.experts_per_token": each}})
    assert figure(plan, "aggregate").tok_s.mid > 7 * figure(plan, "solo").tok_s.mid


def test_a_dense_model_reads_its_weights_once_for_all() -> None:
    changes: Changes = {"profile": {"speculation.method": "off"}, "hardware": {}}
    plan = speed("qwen38-2xa40", changes)
    assert plan.basis == "same-hardware"
    assert figure(plan, "aggregate").tok_s.mid > 0.8 * figure(plan, "aggregate").sessions * figure(plan, "solo").tok_s.mid


@pytest.mark.parametrize("profile", ["ornith-2xa40", "kimi-linear-a40"])
def test_json_and_back(profile: str) -> None:
    plan = speed(profile)
    assert from_json(SpeedPlan, to_json(plan)) == plan
