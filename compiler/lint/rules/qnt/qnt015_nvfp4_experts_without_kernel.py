"""NVFP4 experts find no kernel on this card with this release.

## What it flags
Mixtures of experts in NVFP4 on compute capability 12.x with release 0.15.0, or Nemotron-3-Nano with a release before
0.18, or DeepSeek-V4 with any; on 12.1 a warning.

## Why it hurts
The engine stops while loading: `NvFp4 MoE backend does not support the deployment configuration`. On 12.1 no native
code is in the published build: it falls back to Marlin and needs more memory than planned.

## Example
    hardware: rtx-pro-6000       # 12.0
    engine: vllm-0.17.0
    model: nemotron-3-nano-nvfp4

## Use instead
A later release, `moe_backend: marlin`, or an FP8 checkpoint.

## When to ignore
When a build with native code for the card is used.

## Source
vllm#33416, vllm#35065, vllm#45661, vllm#50925.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe, older, release, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="QNT015", name="nvfp4-experts-without-kernel", severity=Severity.ERROR,
    traps=("nvfp4-moe-sm120", "nvfp4-nano-sm120", "nvfp4-swiglu-clamp", "nvfp4-marlin-sm121"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each known gap."""
    model, marlin = subject.specs.model, subject.setting("moe_backend") == "marlin"
    if model.quantization.scheme != "nvfp4" or not is_moe(subject) or sm(subject) < 120:
        return
    nano = model.architecture.model_type.startswith("nemotron_h") and older(subject, 0, 18) and not marlin
    gaps = (
        (release(subject) == (0, 15, 0), "its family check missed 12.0"),
        (nano, "its activation had no kernel before 0.18"),
        (model.architecture.model_type.startswith("deepseek_v4"), "its clamped activation has no kernel on 12.x"),
    )
    place = subject.place("profile", "engine")
    for applies, why in gaps:
        if applies:
            what = f"release {subject.plan.engine.release} has no NVFP4 expert kernel for {subject.plan.model.slug}"
            yield Hit(place, what, f"{why}, and the engine stops while loading", "take a later release, or an FP8 checkpoint")
    if sm(subject) == 121:
        what, why = "NVFP4 experts on compute capability 12.1", "the published build falls back to Marlin and needs more memory"
        yield Hit(place, what, why, "build for 12.1, or take another checkpoint", severity=Severity.WARNING)
