"""Expert parallelism has no experts to spread, or they do not divide evenly.

## What it flags
`enable_expert_parallel` on a dense model (an error); where `enable_eplb` balances experts that, with redundant ones, are not a
multiple of the ranks (an error) or nothing does (a warning); on one GPU (an information).

## Why it hurts
The engine refuses a model without experts, and balances even splits only. Without balancing some ranks hold one expert more
and the others wait for them. On one GPU the switch does nothing, and on two A40 it was neutral.

## Example
    model: qwen38-27b-awq                # dense
    settings: {enable_expert_parallel: true}

## Use instead
    settings: {enable_expert_parallel: false}

## When to ignore
The warning, where the slowest rank is fast enough.

## Source
`_verify_with_expert_parallelism`, `determine_expert_map` and the balancer's own check in 0.26 to 0.33, asked with a dense model;
vllm#52435; `a40-ornith-v43d-numa-ep-agg-32`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe, mapping
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MDL008", name="expert-parallel-cannot-split", severity=Severity.ERROR, refusal=True,
    traps=("ep-needs-tp", "ep-experts", "numa-ep-neutral"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for a dense model, an uneven split, or a switch without effect."""
    if not subject.setting("enable_expert_parallel"):
        return
    place, fix = subject.setting_place("enable_expert_parallel"), "remove enable_expert_parallel"
    ranks = subject.plan.engine.tensor_parallel * subject.plan.engine.data_parallel
    redundant = mapping(subject, "eplb_config").get("num_redundant_experts") or 0
    balanced, experts = bool(subject.setting("enable_eplb")), subject.specs.model.architecture.experts + redundant
    if not is_moe(subject) and not any(part.part == "routed-experts" for part in subject.specs.model.quantization.parts):
        yield Hit(place, f"expert parallelism on {subject.plan.model.slug}, which has no experts", "the engine refuses", fix)
    elif ranks == 1:
        yield Hit(place, "expert parallelism on one GPU", "it has nothing to spread", fix, severity=Severity.INFO)
    elif experts % ranks:
        what, severity = f"{experts} experts cannot be spread evenly over {ranks} ranks", None if balanced else Severity.WARNING
        why = "the engine balances even splits only, and refuses" if balanced else "some ranks hold one expert more, and the others wait for them"
        yield Hit(place, what, why, "turn enable_expert_parallel off, or change the ranks", severity)
