"""N-gram speculation is on for more than one session.

## What it flags
N-gram drafts with a workload of two sessions or more; as an information, fewer than twelve draft tokens.

## Why it hurts
The verification is paid for every sequence of a step: 35 to 65 per cent of the throughput was lost from two sessions
on. Fewer draft tokens make it worse, not better (25.3 instead of 60.1 tokens a second at four).

## Example
    workload: {sessions: 4}
    speculation: {method: ngram, tokens: 24}

## Use instead
    workload: {sessions: 1}      # code editing, alone: +86 % was measured
    speculation: {method: ngram, tokens: 24}

## When to ignore
When nearly all work is editing of cited code and was measured with that many sessions.

## Source
`qwen3-coder-agentic-ngram24-8`, `qwen3-coder-perstream-4`, `qwen3-coder-edit-ngram-n24`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import draft_tokens, sessions, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="SPD009", name="ngram-for-several-sessions", severity=Severity.WARNING,
    traps=("ngram-loses-concurrent", "ngram-shallower-worse"),
)  # fmt: skip


DEEP = 12


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for shared n-grams, and one for a shallow depth."""
    if speculation_method(subject) not in ("ngram", "ngram_gpu"):
        return
    expected, depth = sessions(subject) or 1, draft_tokens(subject)
    if expected > 1:
        yield Hit(
            speculation_place(subject),
            f"n-gram speculation for {expected} sessions",
            "every sequence pays for verification: 35 to 65 per cent of the throughput was lost",
            "set speculation.method to off unless one session works alone",
        )
    if depth is not None and depth < DEEP:
        yield Hit(
            subject.place("profile", "speculation", "tokens"),
            f"n-gram speculation {depth} tokens deep",
            "verification costs about the same, and fewer tokens are won: 12 to 24 were best",
            "set speculation.tokens to 24, or turn speculation off",
            severity=Severity.INFO,
        )
