"""Nobody decides how many tokens are drafted.

## What it flags
A method of speculation without `tokens` in the profile.

## Why it hurts
The compiler's default is used then, and a verdict without its depth cannot be compared. One bootstrap had two
defaults for it, 2 in one place and 3 in another.

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
    chosen = subject.specs.profile.speculation
    if speculates(subject) and chosen is not None and chosen.tokens is None:
        yield Hit(
            speculation_place(subject),
            f"{speculation_method(subject)} speculation without a number of draft tokens; {draft_tokens(subject)} are taken",
            "the depth decides whether it wins, and the default is nobody's choice",
            f"write speculation.tokens: {draft_tokens(subject)}, or the depth that was measured",
        )
