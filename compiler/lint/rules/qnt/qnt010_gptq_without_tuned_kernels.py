"""A GPTQ checkpoint runs on a card for which its kernels were never tuned.

## What it flags
Scheme `gptq-int4` on an RTX 4090.

## Why it hurts
One and a half per cent of the expected speed was measured: the Triton kernels have no tuned configuration for that
card.

## Example
    hardware: 2x4090
    model: a-gptq-int4-checkpoint

## Use instead
An AWQ or FP8 checkpoint, which Marlin serves.

## When to ignore
When the release was measured to take Marlin for it.

## Source
`l-gptq-int4`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT010", name="gptq-without-tuned-kernels", severity=Severity.WARNING, traps=("gptq-4090",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the pair."""
    if subject.specs.model.quantization.scheme == "gptq-int4" and "4090" in subject.plan.hardware.name:
        yield Hit(
            subject.place("profile", "model"),
            f"{subject.plan.model.slug} is GPTQ int4 on an RTX 4090",
            "1.5 per cent of the expected speed was measured",
            "take an AWQ or FP8 checkpoint",
        )
