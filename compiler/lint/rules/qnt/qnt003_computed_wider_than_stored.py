"""The card computes the checkpoint with wider numbers than it was made for.

## What it flags
A kernel row of the model spec for this compute capability whose effective bits differ from the checkpoint's; without
rows, W8A8 in fp8 below compute capability 8.9.

## Why it hurts
W8A8 on Ampere becomes W8A16 through Marlin: it starts, and is slower than the name promises. Numbers from another
card do not transfer.

## Example
    hardware: 2xa40
    model: ornith-fp8            # W8A8; W8A16 on 8.6

## Use instead
A checkpoint whose format the card computes, where there is one.

## When to ignore
When the plan's report is all that was wanted: it shows the effective scheme too.

## Source
0.27.1's CompressedTensorsW8A16Fp8 (floor 75); Ornith FP8 on A40; weight-only NVFP4 through Marlin.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu, sm, version
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="QNT003", name="computed-wider-than-stored", severity=Severity.INFO,
    traps=("w8a8-on-ampere", "compressed-tensors-835", "nvfp4-w4a16-ok", "fp8-official-trap"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the last kernel row that applies is wider."""
    quantization = subject.specs.model.quantization
    rows = [row for row in quantization.kernels if version(row.min_compute_capability) <= subject.capability]
    wider, kernel = (rows[-1].effective, rows[-1].kernel) if rows else (quantization.activations, "")
    if not rows and (quantization.scheme, quantization.activations) == ("fp8", "W8A8") and on_gpu(subject) and sm(subject) < 89:
        wider, kernel = "W8A16", "Marlin, since only 8.9 and later multiply fp8"
    if wider != quantization.activations:
        slug, capability = subject.plan.model.slug, subject.plan.hardware.compute_capability
        yield Hit(
            subject.place("profile", "model"),
            f"{slug} is {quantization.activations}, computed as {wider} on {capability}: {kernel}",
            "speed measured elsewhere does not hold here",
            "nothing, if that is known; else look for a checkpoint made for this card",
        )
