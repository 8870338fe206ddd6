"""The activation type cannot be used with this card or this model.

## What it flags
`dtype: bfloat16` below compute capability 8.0; `dtype: float16` for Gemma 2, Gemma 3 and GLM-4.

## Why it hurts
The engine's workers refuse the first for want of units when they start, after the image is pulled and before the weights are
loaded: `Bfloat16 is only supported on GPUs with compute capability of at least 8.0`. Its configuration refuses the second for
numerical instability.

## Example
    model: gemma-3-27b
    settings: {dtype: float16}

## Use instead
    settings: {dtype: auto}

## When to ignore
Never: the engine refuses.

## Source
`check_if_supports_dtype`, which the worker of 0.26 to 0.33 calls; 0.27.1's model configuration, asked with a Gemma 3 config and on
a card of 7.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT018", name="number-type-refused", severity=Severity.ERROR, refusal=True)


UNSTABLE = ("gemma2", "gemma3", "gemma3_text", "glm4")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the card, and one for the model."""
    dtype, place = subject.setting("dtype"), subject.setting_place("dtype")
    if dtype == "bfloat16" and sm(subject) < 80 and on_gpu(subject):
        what = f"dtype bfloat16 on compute capability {subject.plan.hardware.compute_capability}"
        yield Hit(place, what, "it has no bfloat16 units, and the engine's workers refuse to start", "set dtype to float16")
    if dtype in ("float16", "half") and subject.specs.model.architecture.model_type in UNSTABLE:
        what = f"dtype {dtype} for {subject.plan.model.slug}"
        yield Hit(place, what, "the model is unstable in float16, and the engine refuses", "set dtype to auto")
