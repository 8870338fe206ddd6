"""A package is installed in whatever version is newest.

## What it flags
A requirement of an extra that the profile uses without `==`.

## Why it hurts
Two builds of one profile differ, and a release of a dependency breaks the engine without any change of yours.

## Example
    extras: {xxhash: {requirement: xxhash, why: ...}}

## Use instead
    extras: {xxhash: {requirement: xxhash==4.1.0, why: ...}}

## When to ignore
Never.

## Source
Versions in the engine spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="PIN004", name="extra-not-pinned", severity=Severity.WARNING)

PINNED = re.compile(r"===?[^*]+$|@\s*\S+")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each package without an exact version."""
    extras = subject.specs.engine.extras
    for package in subject.plan.image.packages:
        if not PINNED.search(package.requirement):
            name = next((n for n, extra in extras.items() if extra.requirement == package.requirement), "")
            what = f"`{package.requirement}` names no exact version"
            yield Hit(subject.place("engine", "extras", name, "requirement"), what, "each build takes another one", "pin it with ==")
