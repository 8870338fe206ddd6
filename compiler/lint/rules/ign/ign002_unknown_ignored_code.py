"""An `ignore:` entry names a code that no rule has.

## What it flags
An entry under `ignore:` whose code is not among the registered rules. The nearest code is named.

## Why it hurts
The finding that was meant is still reported, or another one is silently not accepted.

## Example
    ignore:
      - {rule: MEM022, reason: measured at 16 sessions}      # MEM002 was meant

## Use instead
    ignore:
      - {rule: MEM002, reason: measured at 16 sessions}

## When to ignore
Never: correct the code.

## Source
A rule of this compiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.ignores import IgnoreUse
from compiler.lint.rule import Hit, Rule

RULE = Rule(code="IGN002", name="unknown-ignored-code", severity=Severity.WARNING, stage="ignores")


def check_entry(use: IgnoreUse) -> Iterator[Hit]:
    """A hit when no rule has the code."""
    if not use.known:
        nearest = f"; write {use.nearest} if that was meant" if use.nearest else ""
        yield Hit(
            use.place,
            f"no rule has the code {use.code}",
            "the entry accepts nothing, so the finding that it was written for still stands",
            f"docs/rules/README.md lists all codes{nearest}",
        )
