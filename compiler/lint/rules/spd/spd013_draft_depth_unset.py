"""Nobody decides how many tokens are drafted.

## What it flags
A method of speculation without `tokens` in the profile and without `num_speculative_tokens` in the engine's
configuration.

## Why it hurts
The engine then takes the head's own number of layers or refuses, and a verdict without its depth cannot be compared:
one default was 2 in one place and 3 in another.

## Example
    speculation: {method: mtp}

## Use instead
    speculation: {method: mtp, tokens: 3}

## When to ignore
Never: write the number that is in force.

## Source
The bootstrap's two defaults for one variable; `qwen38-mtp-k1-l40s` against `qwen38-mtp-k3-l40s`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import draft_tokens, speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD013", name="draft-depth-unset", severity=Severity.INFO, traps=("mtp-n-mismatch",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no depth is given."""
    if speculates(subject) and draft_tokens(subject) is None:
        yield Hit(
            speculation_place(subject),
            f"{speculation_method(subject)} speculation without a number of draft tokens",
            "the depth decides whether it wins, and the default is nobody's choice",
            "set speculation.tokens",
        )
