"""An `ignore:` entry accepts a finding that does not occur.

## What it flags
An entry under `ignore:` whose rule exists and found nothing in this profile.

## Why it hurts
It hides the same offence when somebody brings it back, and it tells a reader of a problem that is gone.

## Example
    ignore:
      - {rule: MEM002, reason: measured at 16 sessions}      # the plan has room again since the window was lowered

## Use instead
Remove the entry.

## When to ignore
Never: an ignore of this rule would itself be unused.

## Source
A rule of this compiler; the habit is that of type checkers, which report unused suppressions.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Place, Severity
from compiler.lint.ignores import IgnoreUse
from compiler.lint.rule import Hit, Rule

RULE = Rule(code="IGN001", name="unused-ignore", severity=Severity.WARNING, stage="ignores")


def check_entry(use: IgnoreUse) -> Iterator[Hit]:
    """A hit when the rule exists and nothing was found."""
    if use.known and not use.hits:
        yield Hit(
            use.place,
            f"{use.code} is ignored but finds nothing here",
            "an entry that accepts nothing would hide the offence when it comes back",
            "remove the entry",
            edit=Edit("remove", Place(use.place.path, use.place.route[:-1])),
        )
