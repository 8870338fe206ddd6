"""Fewer sequences may decode at once than sessions are expected.

## What it flags
`max_num_seqs` below the workload's `sessions`; as an information, `max_num_seqs` of 8 or less for several sessions.

## Why it hurts
The rest waits in the queue without a byte. Agents also fan out: one session often sends several requests. Eight gave
830 instead of 910 tokens a second even with eight clients.

## Example
    workload: {sessions: 16}
    settings: {max_num_seqs: 8}

## Use instead
    settings: {max_num_seqs: 64}

## When to ignore
When a queue is wanted, for instance to keep each stream fast.

## Source
`nemotron-pro6000-seqs8-agg8`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import sessions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX013", name="fewer-sequences-than-sessions", severity=Severity.WARNING, traps=("max-seqs-8-loses",))


SMALL = 8


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when sessions will queue, or when the limit is known to lose."""
    expected, limit = sessions(subject), subject.plan.engine.max_num_seqs
    if expected is None or (limit >= expected and (limit > SMALL or expected == 1)):
        return
    queues = limit < expected
    yield Hit(
        subject.setting_place("max_num_seqs"),
        f"max_num_seqs {limit} for {expected} sessions",
        "the others wait in the queue" if queues else "a limit of 8 lost nine per cent even with eight clients",
        "set max_num_seqs to 64, or to what the plan's state blocks allow",
        severity=Severity.WARNING if queues else Severity.INFO,
    )
