"""The first served name starts with `claude-`, so clients ignore the real window.

## What it flags
A first served name that starts with `claude-`.

## Why it hurts
Claude Code takes the window of names that it knows from its own table and ignores CLAUDE_CODE_MAX_CONTEXT_TOKENS for
them. The first name is what the engine reports in its model list and metrics.

## Example
    names: [{name: claude-nemotron}]

## Use instead
    names: [{name: nemotron}, {name: claude-nemotron}]

## When to ignore
When no client uses a window of its own.

## Source
The decompiled client of 2026-08-26; an endpoint that advertised another model's name after a swap.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL009", name="claude-name-served-first", severity=Severity.WARNING, traps=("nemotron-served-name",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the bare name does not come first."""
    first = subject.plan.model.served_names[0]
    if first.startswith("claude-"):
        place = subject.place("profile", "names", 0, "name") if subject.specs.profile.names else subject.place("model", "served_name")
        yield Hit(
            place,
            f"the first served name is {first}",
            "Claude Code ignores a custom window for names that start with claude-",
            "put the bare name first and keep this one as an alias",
        )
