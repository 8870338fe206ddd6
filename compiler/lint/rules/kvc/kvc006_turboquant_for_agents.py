"""TurboQuant serves several agents slower, and its blocks are coarse on hybrid models.

## What it flags
A `turboquant_*` cache with a workload of more than one session, up to ten.

## Why it hurts
Every step unpacks the cache of every session: six agents at 80,000 tokens got 15.0 instead of 26.4 tokens a second
each. On a hybrid model one block is some 4,700 tokens, so up to that many are computed again in every turn.

## Example
    workload: {sessions: 6}
    settings: {kv_cache_dtype: turboquant_k3v4_nc}

## Use instead
    workload: {sessions: 6}
    settings: {kv_cache_dtype: auto}

## When to ignore
When more simultaneous million-token sessions are wanted than a 16-bit cache holds.

## Source
`agentbench-v61`, `tq-attention-block-size`, `bf16-attention-block-size`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid, is_turboquant, kv_dtype, sessions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC006", name="turboquant-for-agents", severity=Severity.WARNING, traps=("tq-block", "tq-slower-concurrent"))


MANY_SESSIONS = 10  # beyond this many long sessions only the packed cache holds them


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when agents share a packed cache."""
    expected = sessions(subject) or 1
    if is_turboquant(subject) and 1 < expected <= MANY_SESSIONS:
        block = subject.plan.memory.block_size
        coarse = f", and a block of {block:,} tokens is computed again in every turn" if is_hybrid(subject) else ""
        yield Hit(
            subject.setting_place("kv_cache_dtype"),
            f"a {kv_dtype(subject)} cache for {expected} sessions",
            f"unpacking costs each session about two fifths of its speed at 80,000 tokens{coarse}",
            "set kv_cache_dtype to auto unless the sessions do not fit",
        )
