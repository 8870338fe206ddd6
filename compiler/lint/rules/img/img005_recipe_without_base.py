"""The engine release has no base image for the recipe.

## What it flags
A `container.recipe` that none of the engine's `images` serves.

## Why it hurts
There is nothing to start from: the image would be built on a base made for another recipe.

## Example
    container: {recipe: vllm-venv}          # with a preview image only

## Use instead
    container: {recipe: vllm-openai}

## When to ignore
Never.

## Source
The engine spec.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG005", name="recipe-without-base", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no base serves the recipe."""
    recipe = subject.specs.profile.container.recipe
    served = [base.recipe for base in subject.specs.engine.images]
    if recipe not in served:
        what = f"engine {subject.plan.engine.slug} has no base image for the recipe {recipe}"
        fix = f"choose one of {', '.join(served)}, or add a base to the engine spec"
        yield Hit(subject.place("profile", "container", "recipe"), what, "the image would start from a base of another recipe", fix)
