"""The engine is a preview build.

## What it flags
An engine spec with `preview: true`.

## Why it hurts
It belongs to no release series: its flags may differ from those of the release it claims, and its image may be deleted.

## Example
    preview: true

## Use instead
Take the first release that knows the model, and keep a copy of the image until then.

## When to ignore
Where no release knows the model yet.

## Source
Deployment notes on the Flash-Next preview image.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG003", name="preview-engine", severity=Severity.INFO, traps=("k2-horizon-tag",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for a preview."""
    if subject.specs.engine.preview:
        what = f"{subject.plan.image.base} is a preview outside the release series"
        yield Hit(
            subject.place("engine", "preview"),
            what,
            "it may change or vanish, and its flags may differ from the release's",
            "keep a copy of the image; take a release when one knows the model",
        )
