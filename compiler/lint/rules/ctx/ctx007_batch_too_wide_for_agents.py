"""One scheduling step is so wide that a prefill freezes every other session.

## What it flags
`max_num_batched_tokens` of 16,384 or more with a workload of more than one session.

## Why it hurts
A prefill slice holds the scheduler while it runs: 2.5 s for 16,384 tokens on two A40. The others' text stops for that
long, again and again.

## Example
    workload: {sessions: 6}
    settings: {max_num_batched_tokens: 16384}

## Use instead
    settings: {max_num_batched_tokens: 8192}

## When to ignore
For batch work in which nobody waits for a stream.

## Source
`agents-v55-live-metrics`; the width was 16,384, 4,096 and 2,048 before 8,192 was kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import sessions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX007", name="batch-too-wide-for-agents", severity=Severity.WARNING, traps=("batch-4096-freeze", "batch16k-swift"))


WIDE = 16384


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when sessions share a wide step."""
    width, expected = subject.plan.engine.max_num_batched_tokens, sessions(subject) or 1
    if width >= WIDE and expected > 1:
        yield Hit(
            subject.setting_place("max_num_batched_tokens"),
            f"steps of {width:,} tokens with {expected} sessions",
            "each slice of a prefill stops all other streams for seconds",
            "set max_num_batched_tokens to 8192",
        )
