"""A checkpoint made for four-bit activations runs on a card without FP4 units.

## What it flags
Weights and activations in four bits (W4A4) below compute capability 10.0.

## Why it hurts
The engine turns it into weight-only FP4 through Marlin (it says so in its log): none of the promised speed is left,
and the calibration for four-bit activations is wasted. Five W4A4 kernels were 20 to 33 % slower even where they
exist.

## Example
    hardware: 2xa40
    model: some-model-nvfp4-w4a4

## Use instead
A weight-only checkpoint: look for `input_activations: null` and groups of 16 in its quantization config.

## When to ignore
When it is the only checkpoint of the model and the speed was measured to be enough.

## Source
`w4a4-five-kernels`; 0.27.1 asked with a W4A4 config on an Ada and an A40 card: it builds both, through Marlin.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="QNT002", name="four-bit-activations-without-units", severity=Severity.WARNING,
    traps=("w4a4-needs-blackwell", "nvfp4-4090-no-gain"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the units are missing."""
    if subject.specs.model.quantization.activations == "W4A4" and sm(subject) < 100 and on_gpu(subject):
        yield Hit(
            subject.place("profile", "model"),
            f"{subject.plan.model.slug} is W4A4, and compute capability {subject.plan.hardware.compute_capability} has no FP4 units",
            "it is computed as weight-only FP4, without the speed that it was made for",
            "take a weight-only checkpoint (input_activations null), or a Blackwell card",
        )
