"""Recorded answers beside the plan: what is the same, what is a fault of the plan."""

from __future__ import annotations

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
