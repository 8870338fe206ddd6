"""The engine does not report cached tokens.

## What it flags
`enable_prompt_tokens_details: false`.

## Why it hurts
Bridge and clients then show a cache rate of zero, and a cache that works looks dead.

## Example
    settings: {enable_prompt_tokens_details: false}

## Use instead
Leave it out: podwright switches it on.

## When to ignore
Where no client reads usage.

## Source
Bridge notes v51.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="NET007", name="cached-tokens-not-reported", severity=Severity.WARNING, traps=("bridge-cache-read",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when it is off."""
    if subject.setting("enable_prompt_tokens_details") is not True:
        place = option_place(subject, "enable_prompt_tokens_details")
        yield Hit(place, "cached prompt tokens are not reported", "clients see a cache rate of zero", "remove the setting", edit=Edit("remove", place))
