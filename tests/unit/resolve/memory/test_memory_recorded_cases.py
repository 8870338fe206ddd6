"""Recorded start-ups: what real engines printed, against what the planner computes.

Run this file as a script to print the table of errors that ``docs/memory.md`` quotes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest
import yaml

from compiler.plan.memory import GIB, MemoryPlan
from compiler.resolve.memory import (
    CacheLayout,
    CardMemory,
    LayerGroup,
    MemoryInputs,
    ModelShape,
    Speculation,
    StateDims,
    Weights,
    cache_layout,
    memory_plan,
)
from compiler.resolve.memory.inputs import own_draft

DATA = Path(__file__).parents[3] / "cases" / "memory_planner.yaml"
MIB = 1 << 20
SHAPE_FIELDS = ("hidden", "vocab", "intermediate", "is_moe", "is_multimodal", "experts", "experts_per_token",
                "moe_intermediate", "heads")


@dataclass(frozen=True)
class Case:
    """One recorded start-up."""

    id: str
    inputs: MemoryInputs
    seen: dict[str, float]
    outcome: str
    has_card: bool

    @property
    def kv_bytes(self) -> float | None:
        """Bytes of the pool as recorded, or as the whole block count implies."""
        if "kv_bytes" in self.seen:
            return self.seen["kv_bytes"]
        if "kv_gib" in self.seen:
            return self.seen["kv_gib"] * GIB
        if "whole_blocks" in self.seen:
            return self.seen["whole_blocks"] * cache_layout(self.inputs).bytes_per_block
        return None


def _group(data: dict[str, Any]) -> LayerGroup:
    state = data.get("state")
    return LayerGroup(**{**data, "state": StateDims(**state) if state else None})


def _card(gpu: dict[str, Any]) -> CardMemory:
    total = gpu.get("cuda_bytes") or gpu.get("cuda_mib", 0) * MIB
    return CardMemory(total_bytes=total or None, vram_mib=gpu.get("smi_mib"), name=gpu.get("name", ""))


def _case(row: dict[str, Any], shapes: dict[str, Any]) -> Case:
    data, shape = row["settings"], shapes[row["settings"]["shape"]]
    groups = tuple(_group(group) for group in shape["groups"])
    draft, drafted = data.get("draft"), tuple(_group(group) for group in data.get("draft_groups", ()))
    weights = data.get("weights_gib")
    inputs = MemoryInputs(
        engine_release=str(data["release"]), card=_card(data.get("gpu", {"smi_mib": 81559})), geometry=groups,
        weights=Weights(total=data.get("checkpoint_bytes", 0), per_rank=int(weights * GIB) if weights else None),
        max_model_len=data["window"], shape=ModelShape(**{k: shape[k] for k in SHAPE_FIELDS if k in shape}),
        tp=data.get("tp", 1), pp=data.get("pp", 1), dp=data.get("dp", 1), kv_dtype=data.get("cache", "auto"), block_size=data.get("block"),
        mamba_cache_mode=data.get("mode"), mamba_cache_dtype=data.get("state_dtype"),
        max_num_batched_tokens=data.get("batch"), max_num_seqs=data.get("seqs"), gpu_memory_utilization=data.get("util"),
        kv_cache_memory_bytes=data.get("kv_fixed"), enforce_eager=data.get("start") == "eager",
        speculation=Speculation("mtp", draft, drafted or own_draft(groups, data.get("draft_layers", 1))) if draft else None,
        language_model_only=data.get("language_only", False), runner=data.get("runner"),
        custom_all_reduce=data.get("custom_all_reduce", True), warm_start=data.get("start") == "warm",
        marlin_moe=data.get("marlin", False))
    return Case(row["id"], inputs, row["seen"], row["outcome"], "gpu" in data)


def test_records_that_are_not_recomputed_say_what_is_missing_and_agree_with_themselves() -> None:
    document = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    assert not {row["id"] for row in document["not_recomputed"]} & {case.id for case in CASES}
    for row in document["not_recomputed"]:
        seen = row["seen"]
        assert row["missing"]
        assert _off(seen["concurrency"] * seen["window"], seen["tokens"]) <= 0.005


def _load() -> list[Case]:
    document = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return [_case(row, document["shapes"]) for row in document["cases"]]


CASES = _load()


def _ids(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case.id for case in cases])


def _off(ours: float, seen: float) -> float:
    return abs(ours - seen) / seen


def _layout(case: Case) -> tuple[CacheLayout, int]:
    layout, kv = cache_layout(case.inputs), case.kv_bytes
    assert kv is not None
    return layout, layout.blocks(kv)


SIZED = [c for c in CASES if (c.kv_bytes or 0) > 0]
FORWARD = [c for c in CASES if c.has_card and c.kv_bytes is not None and c.inputs.kv_cache_memory_bytes is None
           and c.inputs.gpu_memory_utilization and (c.inputs.weights.per_rank or c.inputs.weights.total)]


@_ids([c for c in SIZED if "tokens" in c.seen])
def test_tokens_follow_from_the_printed_cache(case: Case) -> None:
    layout, blocks = _layout(case)
    assert _off(layout.tokens(blocks, case.inputs.max_model_len), case.seen["tokens"]) <= 0.01


@_ids([c for c in SIZED if "concurrency" in c.seen])
def test_concurrency_follows_from_the_printed_cache(case: Case) -> None:
    layout, blocks = _layout(case)
    ours = layout.concurrency(blocks, case.inputs.max_model_len)
    assert _off(ours, case.seen["concurrency"]) <= 0.01


@_ids([c for c in CASES if "needed_gib" in c.seen])
def test_needed_cache_is_the_printed_one(case: Case) -> None:
    ours = cache_layout(case.inputs).needed_bytes(case.inputs.max_model_len) / GIB
    assert _off(ours, case.seen["needed_gib"]) <= 0.01


@_ids([c for c in SIZED if "longest" in c.seen])
def test_longest_window_is_the_printed_estimate(case: Case) -> None:
    ours = cache_layout(case.inputs).longest(case.kv_bytes or 0.0)
    assert _off(min(ours, case.inputs.max_model_len), case.seen["longest"]) <= 0.01


@_ids([c for c in CASES if "block" in c.seen])
def test_block_size_is_the_printed_one(case: Case) -> None:
    assert cache_layout(case.inputs).block_size == case.seen["block"]


@_ids([c for c in CASES if "kv_bytes" in c.seen and "blocks" in c.seen])
def test_byte_exact_records_are_met_exactly(case: Case) -> None:
    layout, blocks = _layout(case)
    assert blocks == case.seen["blocks"]
    if "tokens" in case.seen:
        assert layout.tokens(blocks, case.inputs.max_model_len) == case.seen["tokens"]


@_ids([c for c in CASES if ("tokens" in c.seen and c.kv_bytes is None) or "whole_blocks" in c.seen])
def test_printed_tokens_imply_a_whole_block_count(case: Case) -> None:
    layout, window = cache_layout(case.inputs), case.inputs.max_model_len
    implied = case.seen["tokens"] * layout.per_request(window) / window
    step = layout.per_request(window) / window  # the log cuts to a whole token
    nearest = round(implied + step / 2)
    assert implied - 1e-9 <= nearest <= implied + step + 1e-9
    assert nearest == case.seen.get("whole_blocks", nearest)


@_ids(FORWARD)
def test_recorded_cache_lies_inside_the_forward_interval(case: Case) -> None:
    plan, kv = memory_plan(case.inputs), (case.kv_bytes or 0.0) / GIB
    assert plan.kv_gib.low <= kv <= plan.kv_gib.high


@pytest.mark.parametrize("sequences", [64, 256])
@_ids([c for c in FORWARD if c.inputs.release == (0, 11, 0) and c.inputs.max_num_seqs is None])
def test_early_starts_lie_inside_whatever_their_unstated_sequences_were(case: Case, sequences: int) -> None:
    kv_gib = memory_plan(replace(case.inputs, max_num_seqs=sequences)).kv_gib
    assert kv_gib.low <= (case.kv_bytes or 0.0) / GIB <= kv_gib.high


@pytest.mark.parametrize("sequences", [64, 256])
@_ids([c for c in FORWARD if c.inputs.enforce_eager and (c.inputs.card.vram_mib or 0) == 6144])
def test_small_eager_starts_lie_inside_whatever_their_unstated_sequences_were(case: Case, sequences: int) -> None:
    kv_gib = memory_plan(replace(case.inputs, max_num_seqs=sequences)).kv_gib
    assert kv_gib.low <= (case.kv_bytes or 0.0) / GIB <= kv_gib.high


def test_forward_middle_is_close() -> None:
    errors = [abs(memory_plan(c.inputs).kv_gib.mid - (c.kv_bytes or 0.0) / GIB) for c in FORWARD]
    assert len(errors) >= 25
    assert median(errors) <= 0.25 and mean(errors) <= 0.5


@_ids([c for c in CASES if c.outcome == "started" and (c in FORWARD or c.inputs.kv_cache_memory_bytes)])
def test_a_start_that_served_is_not_refused(case: Case) -> None:
    assert memory_plan(case.inputs).verdict != "refused"


def _given_cache(case: Case) -> MemoryPlan:
    """The plan when the caller pins the recorded cache."""
    pinned = max(1, int(case.kv_bytes or 0.0))
    return memory_plan(replace(case.inputs, kv_cache_memory_bytes=pinned))


@_ids([c for c in CASES if c.outcome == "refused" and c.kv_bytes is not None])
def test_a_refused_start_is_refused_when_the_cache_is_known(case: Case) -> None:
    plan = _given_cache(case)
    assert plan.verdict == "refused"
    assert plan.reasons


@_ids([c for c in CASES if c.outcome == "refused" and (c in FORWARD or c.id.startswith("x-"))])
def test_a_refused_start_is_never_said_to_fit(case: Case) -> None:
    assert memory_plan(case.inputs).verdict in ("refused", "tight")


@_ids([c for c in CASES if "beyond_share_gib" in c.seen])
def test_memory_beyond_the_share_is_foreseen(case: Case) -> None:
    plan = memory_plan(case.inputs)
    context = next(part.gib for part in plan.parts if part.name == "cuda_context")
    seen = case.seen["beyond_share_gib"]
    assert plan.outside_budget_gib.low + 0.2 <= seen <= plan.outside_budget_gib.high + 0.75
    assert abs(plan.outside_budget_gib.mid + context - seen) <= 0.3


@_ids([c for c in CASES if "beyond_serving_gib" in c.seen])
def test_memory_of_long_prompts_stays_inside_what_was_foreseen(case: Case) -> None:
    plan, seen = memory_plan(case.inputs), case.seen["beyond_serving_gib"]
    assert plan.outside_budget_gib.low + 0.2 <= seen <= plan.outside_budget_gib.high + 0.75


@_ids([c for c in CASES if "activation_gib" in c.seen and c.id.startswith("x-")])
def test_the_activation_peak_is_close(case: Case) -> None:
    activation = next(part.gib for part in memory_plan(case.inputs).parts if part.name == "activation")
    assert abs(activation - case.seen["activation_gib"]) <= max(0.25, 0.12 * case.seen["activation_gib"])


def _report() -> None:
    """Print the errors of every measure."""
    rows: dict[str, list[float]] = {"tokens": [], "concurrency": [], "needed_gib": [], "longest": []}
    for case in CASES:
        layout, window = cache_layout(case.inputs), case.inputs.max_model_len
        blocks = layout.blocks(case.kv_bytes or 0.0)
        ours = {"tokens": float(layout.tokens(blocks, window)), "concurrency": layout.concurrency(blocks, window),
                "needed_gib": layout.needed_bytes(window) / GIB,
                "longest": float(min(window, layout.longest(case.kv_bytes or 0.0)))}
        for name, errors in rows.items():
            if name in case.seen and (name == "needed_gib" or (case.kv_bytes or 0) > 0):
                errors.append(100 * _off(ours[name], case.seen[name]))
    for name, errors in rows.items():
        print(f"{name:12} n={len(errors):2} median {median(errors):.3f} % mean {mean(errors):.3f} % max {max(errors):.2f} %")
    misses = []
    for case in FORWARD:
        plan, kv = memory_plan(case.inputs), (case.kv_bytes or 0.0) / GIB
        misses.append(plan.kv_gib.mid - kv)
        print(f"{case.id:26} seen {kv:7.2f} plan {plan.kv_gib.low:7.2f} {plan.kv_gib.mid:7.2f} {plan.kv_gib.high:7.2f} "
              f"off {misses[-1]:+5.2f} {case.outcome:8} {plan.verdict}")
    sizes = [abs(miss) for miss in misses]
    print(f"forward n={len(sizes)} median {median(sizes):.2f} mean {mean(sizes):.2f} max {max(sizes):.2f} GiB; "
          f"signed mean {mean(misses):+.2f}")


if __name__ == "__main__":
    _report()
