"""The forced quantization method is not the checkpoint's.

## What it flags
A `quantization` setting of another family than the method in the model spec.

## Why it hurts
The engine refuses: `Quantization method specified in the model config does not match the quantization argument`.

## Example
    model: ornith-nvfp4          # modelopt
    settings: {quantization: awq}

## Use instead
Leave `quantization` unset: the engine reads it from the checkpoint.

## When to ignore
Never: the engine refuses.

## Source
0.27.1's `_verify_quantization`, asked with an AWQ config.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import text
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT019", name="forced-method-unlike-checkpoint", severity=Severity.ERROR, refusal=True)


FAMILIES = (
    {"awq", "awq_marlin", "auto_awq", "moe_wna16"}, {"gptq", "gptq_marlin", "auto_gptq", "moe_wna16"},
    {"modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8"}, {"inc", "auto-round", "auto_round"},
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no family holds both."""
    forced, own = text(subject, "quantization"), subject.specs.model.quantization.method
    if forced is None or own is None or forced == own or any({forced, own} <= family for family in FAMILIES):
        return
    yield Hit(
        subject.setting_place("quantization"),
        f"quantization {forced} for {subject.plan.model.slug}, whose config says {own}",
        "the engine refuses the pair",
        "leave quantization unset",
    )
