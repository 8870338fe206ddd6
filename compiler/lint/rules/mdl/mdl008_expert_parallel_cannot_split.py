"""Expert parallelism has nothing to spread, or the experts do not divide evenly.

## What it flags
`enable_expert_parallel` where the experts (plus redundant ones) are not a multiple of the ranks (an error); on one
GPU or on a dense model (an information).

## Why it hurts
The engine asserts an even split. On one GPU the switch does nothing, and on two A40 it was neutral.

## Example
    model: qwen3-coder-reap-awq          # 103 experts
    hardware: 2xa40
    settings: {enable_expert_parallel: true}

## Use instead
    settings: {enable_expert_parallel: false}

## When to ignore
The information, in a profile that others extend to more GPUs.

## Source
vllm#52435; `a40-ornith-v43d-numa-ep-agg-32`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MDL008", name="expert-parallel-cannot-split", severity=Severity.ERROR,
    traps=("ep-needs-tp", "ep-experts", "numa-ep-neutral"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for an uneven split, or for a switch without effect."""
    if not subject.setting("enable_expert_parallel"):
        return
    place = subject.setting_place("enable_expert_parallel")
    ranks = subject.plan.engine.tensor_parallel * subject.plan.engine.data_parallel
    redundant = mapping(subject, "eplb_config").get("num_redundant_experts") or 0
    experts = subject.specs.model.architecture.experts + redundant
    if ranks == 1 or experts == 0:
        what = "expert parallelism on one GPU" if ranks == 1 else "expert parallelism on a dense model"
        yield Hit(place, what, "it has nothing to spread", "remove enable_expert_parallel", severity=Severity.INFO)
    elif experts % ranks:
        what = f"{experts} experts cannot be spread evenly over {ranks} ranks"
        yield Hit(place, what, "the engine asserts an even split and exits", "turn enable_expert_parallel off, or change the ranks")
