"""The real release judges every shipped profile on its own card, and proves rules: what they refuse, it refuses.

One process for each card asks all of it, so the first test takes the time of all.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import yaml

from compiler.units import GIB
from compiler.verify.command import Judgement
from tests.integration.engine.judging import RELEASE, Question, judgements, unaskable
from tests.integration.parts import engine_absent, engine_parts
from tests.support import REMOVE, ROOT, SPECS
from tests.unit.lint.rule_cases import hits

PROFILES = sorted(path.stem for path in (SPECS / "profiles").glob("*.yaml"))
PROOFS: list[dict[str, str]] = yaml.safe_load((ROOT / "tests" / "cases" / "verify" / "proofs.yaml").read_text("utf-8"))
SWALLOWED = "a setting without effect"
SPREAD = "experts spread over ranks"
REPLICAS = "a mixture of experts in two replicas"
ODD_BLOCK = "a block that is no multiple of the scan chunk"
YARN = "a YaRN override without effect"
STAGES, STAGES_OF_RANKS, UNEVEN = "two stages", "two stages of two ranks", "stages with unlike layers"

pytestmark = pytest.mark.real_engine


def rule_case(proof: dict[str, str]) -> dict[str, Any]:
    """The case of a rule that a proof names."""
    cases: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "cases" / "rules" / f"{proof['rule']}.yaml").read_text("utf-8"))
    return next(case for case in cases if case["name"] == proof["case"])


def question_of(proof: dict[str, str]) -> Question:
    """What a proof asks."""
    case = rule_case(proof)
    return Question(f"{proof['rule']}: {proof['case']}", case["base"], case.get("set", {}))


@functools.cache
def all_judgements() -> dict[str, list[Judgement]]:
    """Everything that this file asks, at once."""
    shipped = [Question(profile, profile) for profile in PROFILES if unaskable(Question(profile, profile).specs()) is None]
    swallowed = Question(SWALLOWED, "ornith-ada", {"profile": {"settings.quantization": "awq"}})
    spread = Question(SPREAD, "ornith-2xa40", {"profile": {"settings.enable_expert_parallel": True}})
    # Where the checkpoint keeps its rope parameters one level deeper, with the engine's own check of the window switched off.
    yarn = Question(YARN, "ornith-ada", {"model": {"context.yarn.location": "top-level"}, "profile": {"env.VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}})
    staged = [
        Question(name, base, {"hardware": {"count": tensor * stages}, "profile": {"settings.tensor_parallel_size": tensor, "settings.pipeline_parallel_size": stages}})
        for name, base, tensor, stages in ((STAGES, "ornith-2xa40", 1, 2), (STAGES_OF_RANKS, "qwen3-coder-a40", 2, 2), (UNEVEN, "nemotron-ada", 1, 3))
    ]  # fmt: skip
    halves = {"settings.tensor_parallel_size": 1, "settings.data_parallel_size": 2, "settings.max_model_len": 262144, "yarn_factor": REMOVE}
    replicas = Question(REPLICAS, "ornith-2xa40", {"profile": halves})
    odd = Question(ODD_BLOCK, "nemotron-ada", {"profile": {"settings.mamba_cache_mode": "all", "engine_args.mamba_block_size": 400}})
    return judgements([*shipped, swallowed, spread, yarn, *staged, replicas, odd, *(question_of(proof) for proof in PROOFS)])


def judged(name: str) -> list[Judgement]:
    """What the release says; skips with the reason where it is not here."""
    if engine_parts(RELEASE) is None:
        pytest.skip(engine_absent(RELEASE))
    return all_judgements()[name]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_shipped_profile_is_accepted_as_planned(profile: str) -> None:
    if reason := unaskable(Question(profile, profile).specs()):
        pytest.skip(reason)
    for judgement in judged(profile):
        assert judgement.answer.accepted, judgement.answer.error
        assert [row for row in judgement.rows if row.verdict == "differs"] == []
        assert len(judgement.answer.ranks) == judgement.subject.engine.tensor_parallel
        assert {"kv_tokens", "block_size", "bytes_per_token"} <= {row.name for row in judgement.rows if row.verdict == "same"}


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof['rule']}: {proof['case']}")
def test_what_a_rule_refuses_the_release_refuses(proof: dict[str, str]) -> None:
    case = rule_case(proof)
    assert [d for d in hits(proof["rule"], case) if d.is_error], "the rule itself is no error here"
    answer = judged(question_of(proof).id)[0].answer
    assert not answer.accepted and answer.stage == proof["stage"], answer
    assert proof["says"] in (answer.error or ""), answer.error
    assert all(judgement.answer.accepted for judgement in judged(case["base"])), "and it accepts the profile without the fault"


def test_a_setting_that_the_release_swallows_is_a_fault_of_the_plan() -> None:
    judgement = judged(SWALLOWED)[0]
    assert judgement.answer.accepted, judgement.answer.error
    assert [(row.name, row.planned, row.engine) for row in judgement.faults] == [("quantization", "awq", "modelopt_fp4")]


def test_ranks_of_expert_parallelism_hold_half_of_the_experts() -> None:
    whole, spread = judged("ornith-2xa40")[0], judged(SPREAD)[0]
    assert spread.answer.accepted, spread.answer.error
    sizes = [rank["parameter_bytes"] for judgement in (whole, spread) for rank in judgement.answer.ranks]
    assert len(sizes) == 4 and max(sizes) < 1.05 * min(sizes)


def test_a_yarn_override_that_the_release_swallows_is_a_fault_of_the_plan() -> None:
    judgement = judged(YARN)[0]
    assert judgement.answer.accepted, judgement.answer.error
    assert [(row.name, row.planned, row.engine) for row in judgement.faults] == [("rope", "yarn, factor 4", "default")]
    assert "swallowed" in judgement.faults[0].why and not judgement.ok
    kept = judged("ornith-ada")[0]
    assert next(row.engine for row in kept.rows if row.name == "rope") == "yarn, factor 4"


@pytest.mark.parametrize(("name", "layers", "ranks"), [(STAGES, [20, 20], 2), (STAGES_OF_RANKS, [24, 24], 4)])
def test_pipeline_stages_are_built_as_planned(name: str, layers: list[int], ranks: int) -> None:
    judgement = judged(name)[0]
    assert judgement.answer.accepted and judgement.faults == (), judgement
    rows = {row.name: row for row in judgement.rows}
    assert (rows["layers by stage"].engine, rows["layers of all stages"].verdict) == (layers, "same")
    assert [rank["stage"] for rank in judgement.answer.ranks] == sorted([0, 1] * (ranks // 2))
    assert rows["kv_tokens"].verdict == rows["bytes_per_token"].verdict == "same"


def test_a_stage_with_more_attention_layers_than_its_share_is_a_fault_of_the_plan() -> None:
    judgement = judged(UNEVEN)[0]
    assert judgement.answer.accepted, judgement.answer.error
    rows = {row.name: row for row in judgement.rows}
    assert (rows["layers by stage"].engine, rows["layers of the fullest stage"].verdict) == ([17, 18, 17], "same")
    assert [row.name for row in judgement.faults] == ["bytes_per_token", "kv_tokens", "concurrency"]


def test_replicas_of_a_mixture_hold_slices_of_its_experts_as_the_planner_has_it() -> None:
    """What a replica saves is compared: the config that is written from facts is smaller than the checkpoint."""
    judgement, whole = judged(REPLICAS)[0], judged("ornith-2xa40")[0]
    assert judgement.answer.accepted, judgement.answer.error
    saved = sum(rank["parameter_bytes"] for rank in whole.answer.ranks) - judgement.answer.ranks[0]["parameter_bytes"]
    planned = whole.subject.spec.weights.loaded - judgement.subject.memory.weights_gib * GIB
    assert saved > 7 * GIB and abs(planned - saved) < 0.1 * saved, (planned / GIB, saved / GIB)


def test_a_block_that_is_asked_for_is_the_planned_one() -> None:
    judgement = judged(ODD_BLOCK)[0]
    assert judgement.answer.accepted, judgement.answer.error
    assert ("block_size", 2400, 2400, "same") in [(row.name, row.planned, row.engine, row.verdict) for row in judgement.rows]
