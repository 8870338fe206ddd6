"""Prefix caching is switched on for a model whose prefixes the engine cannot keep.

## What it flags
`enable_prefix_caching: true` with a model spec that says `prefix_caching: false`.

## Why it hurts
The engine drops the setting or finds nothing: every turn reads its whole history again, and whoever planned with warm
turns planned wrong.

## Example
    model: kimi-linear
    settings: {enable_prefix_caching: true}

## Use instead
    model: kimi-linear           # no prefix cache: keep histories short

## When to ignore
When a later release keeps these prefixes; then correct the model spec.

## Source
The models' table of the source documents; Kimi-Linear, August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC017", name="prefix-cache-promised-in-vain", severity=Severity.WARNING, traps=("kimi-no-prefix-cache",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the promise cannot be kept."""
    if subject.setting("enable_prefix_caching") is True and not subject.specs.model.architecture.prefix_caching:
        place = subject.setting_place("enable_prefix_caching")
        yield Hit(
            place,
            f"prefix caching is on, but {subject.plan.model.slug} has no prefixes that the engine can keep",
            "every turn reads its whole history again, whatever the setting says",
            "remove enable_prefix_caching",
            edit=Edit("remove", place),
        )
