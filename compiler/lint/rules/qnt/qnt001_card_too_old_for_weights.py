"""The card's compute capability is below what the checkpoint's quantization needs.

## What it flags
A compute capability below the model spec's `min_compute_capability`, or below the floor of a quantization method that
is forced (from the release's own table).

## Why it hurts
No kernel exists: the engine refuses (`The quantization method ... is not supported for the current GPU`), or falls
back to something for which the checkpoint was not made.

## Example
    hardware: rtx-6000-ada            # 8.9
    model: qwen38-27b-nvfp4           # W4A4, from 10.0 on

## Use instead
Another checkpoint of the same model (weight-only NVFP4 or AWQ run from 8.0 on), or another card.

## When to ignore
When the release was seen to serve it; then correct the model spec.

## Source
The floors in each release's snapshot (in 0.27.1 fp_quant 100, mxfp8 80, AWQ 75); vllm#43507.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu, sm, version
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT001", name="card-too-old-for-weights", severity=Severity.ERROR, traps=("w4a4-needs-blackwell", "fp-quant-min-sm"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the checkpoint, and one for a forced method."""
    if not on_gpu(subject):
        return
    floor = subject.specs.model.quantization.min_compute_capability
    have = subject.plan.hardware.compute_capability
    if subject.capability < version(floor):
        yield Hit(
            subject.place("profile", "model"),
            f"{subject.plan.model.slug} needs compute capability {floor}, and {subject.plan.hardware.name} has {have}",
            "no kernel of this engine serves the checkpoint as it was made",
            "take a checkpoint in another format, or a newer card",
        )
    forced = subject.setting("quantization")
    lowest = subject.specs.flags.min_capability.get(str(forced), 0)
    if sm(subject) < lowest:
        yield Hit(
            subject.setting_place("quantization"),
            f"quantization {forced} needs compute capability {lowest / 10:g}, and the card has {have}",
            "the engine refuses the method on this card",
            "leave quantization unset",
        )
