"""Speculation is on and nobody decides how wide a scheduling step is.

## What it flags
Any method of speculation with `max_num_batched_tokens` unset.

## Why it hurts
The engine then lowers the width to 2,048: thirty-two streams fell from 1,166 to 296 tokens a second.

## Example
    speculation: {method: ngram, tokens: 24}

## Use instead
    speculation: {method: ngram, tokens: 24}
    settings: {max_num_batched_tokens: 8192}

## When to ignore
Never: the setting costs nothing.

## Source
`spec-batched-2048-32streams`, `spec-batched-fixed-32streams`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX010", name="speculation-without-batch-width", severity=Severity.WARNING, traps=("spec-batched-2048",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the width is left to the engine."""
    if speculates(subject) and subject.setting("max_num_batched_tokens") is None:
        yield Hit(
            speculation_place(subject),
            f"{speculation_method(subject)} speculation without max_num_batched_tokens",
            "the engine lowers the width of a step to 2,048, a quarter of the throughput was left",
            "set max_num_batched_tokens, for instance to 8192",
        )
