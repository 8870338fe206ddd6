"""Each data-parallel replica holds all weights and gets its own, smaller cache.

## What it flags
`data_parallel_size` above 1.

## Why it hurts
A session lives on one replica: the largest window is that of one GPU's cache, not of all. Dense 27B over two A40 held
131,072 tokens that way; at 262,144 it was 0.23 GiB short.

## Example
    settings: {data_parallel_size: 2, max_model_len: 262144}

## Use instead
    settings: {data_parallel_size: 2, max_model_len: 131072}      # or tensor parallel for long windows

## When to ignore
When many short sessions matter more than one long one.

## Source
`a40-qwen38-dp2-32`, `a40-qwen38-dp2-kv`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC018", name="replicas-halve-the-cache", severity=Severity.INFO, traps=("dp-forces-tp1",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for every data-parallel profile."""
    engine = subject.plan.engine
    if engine.data_parallel > 1:
        yield Hit(
            subject.setting_place("data_parallel_size"),
            f"{engine.data_parallel} replicas of {engine.tensor_parallel} GPU each, every one with all the weights",
            f"one session can use the cache of its own replica only: {subject.plan.memory.longest_context:,} tokens here",
            "keep it for many short sessions; use tensor parallel for long windows",
        )
