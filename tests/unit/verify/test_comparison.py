"""Recorded answers beside the plan: what is the same, what is a fault of the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compiler.verify.asking import answer_of
from compiler.verify.comparison import Row, compared, token_bytes
from tests.support import Changes
from tests.unit.verify.recorded import recorded_answer, recorded_row, subject_of

YARN: Changes = {"profile": {"settings.max_model_len": 524288, "yarn_factor": 4.0}}


def rows(profile: str, changed: dict[str, object] | None = None, changes: Changes | None = None, own: bool = True) -> dict[str, Row]:
    found = compared(subject_of(profile, changes), recorded_answer(profile, changed), own)
    assert len({row.name for row in found}) == len(found)
    return {row.name: row for row in found}


@pytest.mark.parametrize("profile", ["nemotron-ada", "qwen38-2xa40"])
def test_a_real_answer_is_as_planned(profile: str) -> None:
    found = rows(profile, own=False)
    assert [row for row in found.values() if row.verdict == "differs"] == []
    assert {"kv_tokens", "block_size", "bytes_per_token", "runner", "concurrency"} <= {
        name for name, row in found.items() if row.verdict == "same"
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("runner", "V2"),
        ("max_model_len", 262144),
        ("kv_cache_dtype", "auto"),
        ("mamba_cache_mode", "all"),
        ("enable_prefix_caching", False),
        ("architecture", "LlamaForCausalLM"),
        ("max_num_seqs", 1024),
    ],
)
def test_what_the_engine_makes_otherwise_is_a_fault_of_the_plan(name: str, value: object) -> None:
    found = rows("nemotron-ada", {name: value})
    assert [(row.name, row.engine) for row in found.values() if row.verdict == "differs"] == [(name, value)]
    assert found[name].why


def test_a_swallowed_yarn_override_is_a_fault() -> None:
    subject = subject_of("ornith-ada")
    assert subject.model.yarn_factor == 4.0
    answer = recorded_answer("nemotron-ada", {"rope": {"rope_type": "default", "rope_theta": 10000000}})
    row = next(row for row in compared(subject, answer, False) if row.name == "rope")
    assert (row.verdict, row.planned, row.engine) == ("differs", "yarn, factor 4", "default") and "swallowed" in row.why
    kept = recorded_answer("nemotron-ada", {"rope": {"rope_type": "yarn", "factor": 4.0}})
    assert next(row for row in compared(subject, kept, False) if row.name == "rope").verdict == "same"


def test_weights_are_judged_with_the_checkpoints_own_config_alone() -> None:
    assert rows("qwen38-2xa40", own=False)["weights of rank 0, GiB"].verdict == "told"
    assert rows("qwen38-2xa40", own=True)["weights of rank 0, GiB"].verdict == "differs"
    assert rows("nemotron-ada", own=True)["weights, GiB"].verdict == "same"


def test_ranks_that_are_unlike_are_a_fault() -> None:
    row = recorded_row("qwen38-2xa40")
    row["ranks"][1]["block_size"] += 16
    found = {r.name: r for r in compared(subject_of("qwen38-2xa40"), answer_of(row), False)}
    assert found["ranks unlike rank 0"].verdict == "differs" and found["ranks unlike rank 0"].engine == [1]


def test_another_kernel_than_the_spec_names_is_a_fault() -> None:
    row = recorded_row("nemotron-ada")
    row["ranks"][0]["backends"].update(
        linear={"ModelOptNvFp4LinearMethod/CutlassNvFp4LinearKernel": 104}, experts={"ModelOptNvFp4FusedMoE/FLASHINFER_CUTLASS": 23}
    )
    for is_own, verdict in ((True, "differs"), (False, "told")):
        found = {r.name: r for r in compared(subject_of("nemotron-ada"), answer_of(row), is_own)}
        assert found["kernel"].verdict == verdict


def test_other_tokens_from_the_same_memory_are_a_fault() -> None:
    row = recorded_row("nemotron-ada")
    row["ranks"][0]["cache"]["tokens"] = round(row["ranks"][0]["cache"]["tokens"] * 1.02)
    found = {r.name: r for r in compared(subject_of("nemotron-ada"), answer_of(row), False)}
    assert found["kv_tokens"].verdict == "differs"


def test_a_release_that_does_not_divide_the_cache_is_told() -> None:
    row = recorded_row("nemotron-ada")
    row["ranks"][0]["cache"] = None
    found = {r.name: r for r in compared(subject_of("nemotron-ada"), answer_of(row), False)}
    assert (found["kv_tokens"].verdict, found["kv_tokens"].engine) == ("told", None) and "concurrency" not in found


def test_states_and_windows_cost_no_bytes_a_token() -> None:
    full = {"kind": "FullAttentionSpec", "block_size": 16, "page_bytes": 64, "real_page_bytes": 32, "layers": 3}
    others = [{**full, "kind": kind} for kind in ("MambaSpec", "SlidingWindowSpec", "ChunkedLocalAttentionSpec")]
    assert token_bytes([full, *others]) == 6.0


@pytest.mark.parametrize(("asked", "verdict"), [("modelopt", "same"), ("modelopt_fp4", "same"), ("awq", "differs")])
def test_a_quantization_method_that_is_ignored_is_a_fault(asked: str, verdict: str) -> None:
    assert rows("nemotron-ada", changes={"profile": {"settings.quantization": asked}})["quantization"].verdict == verdict


def test_with_states_kept_for_every_block_the_tokens_are_judged_instead() -> None:
    found = rows("nemotron-ada", {"mamba_cache_mode": "all"}, own=False)
    assert "bytes_per_token" not in found and "kv_tokens" in found


STAGES: Changes = {"profile": {"settings.tensor_parallel_size": 1, "settings.pipeline_parallel_size": 2}}


def staged(change: Callable[[list[dict[str, Any]]], None], own: bool = True) -> dict[str, Row]:
    """Rows for a recorded answer about two pipeline stages, after a change to its ranks."""
    row = recorded_row("ornith-2xa40-stages")
    change(row["ranks"])
    return {row.name: row for row in compared(subject_of("ornith-2xa40", STAGES), answer_of(row), own)}


def test_stages_of_a_pipeline_are_as_planned() -> None:
    found = staged(lambda ranks: None)
    assert [row for row in found.values() if row.verdict == "differs"] == []
    assert (found["layers of all stages"].engine, found["layers of the fullest stage"].engine, found["layers by stage"].engine) == (40, 20, [20, 20])
    # The last stage has the head and the final norm, the first one the embedding and the vision tower.
    assert found["weights of stage 1, GiB"].engine - found["weights of stage 0, GiB"].engine == pytest.approx(0.947, abs=0.001)
    assert found["weights on average, GiB"].verdict == found["weights of stage 1, GiB"].verdict == found["kv_tokens"].verdict == "same"
    assert {"attention backends of stage 0", "attention backends of stage 1"} <= found.keys() and "ranks unlike rank 0" not in found


def test_a_stage_that_is_heavier_than_one_end_explains_is_a_fault() -> None:
    def heavier(ranks: list[dict[str, Any]]) -> None:
        ranks[1]["parameter_bytes"] += 2 << 30

    found = staged(heavier)
    assert [row.name for row in found.values() if row.verdict == "differs"] == ["weights on average, GiB", "weights of stage 1, GiB"]
    assert all(row.verdict == "told" for row in staged(heavier, own=False).values() if row.name.startswith("weights"))


def test_layers_that_are_dealt_out_unevenly_are_a_fault() -> None:
    def uneven(ranks: list[dict[str, Any]]) -> None:
        ranks[0]["layers"], ranks[1]["layers"] = 24, 16
        for rank, layers in zip(ranks, (6, 4), strict=True):
            next(spec for spec in rank["kv_specs"] if spec["kind"] == "FullAttentionSpec")["layers"] = layers

    found = staged(uneven)
    assert [(row.name, row.planned, row.engine) for row in found.values() if row.verdict == "differs"] == [
        ("layers of the fullest stage", 20, 24), ("bytes_per_token", 10240.0, 12288.0),
    ]  # fmt: skip


def test_ranks_are_compared_within_their_stage() -> None:
    def ranks_of_two(ranks: list[dict[str, Any]]) -> None:
        first, last = ranks
        ranks[:] = [first, {**first, "rank": 1, "cache": None}, {**last, "rank": 2}, {**last, "rank": 3, "block_size": 16}]

    found = staged(ranks_of_two, own=False)
    assert (found["ranks unlike the first of their stage"].engine, found["ranks unlike the first of their stage"].verdict) == ([3], "differs")
    assert "weights of stage 1, rank 3, GiB" in found


def test_a_network_that_does_not_tell_its_layers_is_told() -> None:
    def untold(ranks: list[dict[str, Any]]) -> None:
        ranks[0]["layers"] = None

    found = staged(untold)
    assert found["layers by stage"].verdict == "told" and "layers of all stages" not in found
