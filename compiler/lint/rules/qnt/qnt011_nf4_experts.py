"""A BitsAndBytes NF4 checkpoint of a mixture of experts cannot be served.

## What it flags
Scheme `bitsandbytes-nf4` on a model with experts.

## Why it hurts
The engine has no fused expert kernel for NF4 and refuses.

## Example
    model: some-moe-nf4

## Use instead
An AWQ, FP8 or NVFP4 checkpoint of the same model.

## When to ignore
When a later release serves it; then remove the rule.

## Source
A logbook's list of rejected formats, 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT011", name="nf4-experts", severity=Severity.ERROR, traps=("bnb-marlin",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the pair."""
    if is_moe(subject) and subject.specs.model.quantization.scheme == "bitsandbytes-nf4":
        yield Hit(
            subject.place("profile", "model"),
            f"{subject.plan.model.slug} is a mixture of experts in NF4",
            "no expert kernel reads NF4, and the engine refuses",
            "take an AWQ, FP8 or NVFP4 checkpoint",
        )
