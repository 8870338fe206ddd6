"""Chunked prefill is off at a long window.

## What it flags
`enable_chunked_prefill: false` with a window above 65,536 tokens.

## Why it hurts
The batch then grows to the window, activations with it, and the same utilization leaves far less cache. A long prompt
also stops every other session until it is read.

## Example
    settings: {max_model_len: 131072}
    engine_args: {enable_chunked_prefill: false}

## Use instead
    settings: {max_model_len: 131072, max_num_batched_tokens: 8192}

## When to ignore
For one session on a large card, when the plan still holds the window.

## Source
vllm#25350.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX012", name="unchunked-prefill-at-long-window", severity=Severity.WARNING, traps=("unchunked-activation",))


LONG = 65536


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the whole window becomes one batch."""
    if subject.setting("enable_chunked_prefill") is False and subject.plan.engine.max_model_len > LONG:
        yield Hit(
            subject.setting_place("enable_chunked_prefill"),
            f"chunked prefill is off at a window of {subject.plan.engine.max_model_len:,} tokens",
            "the batch grows to the window, and activations take the cache's memory",
            "leave chunked prefill on and set max_num_batched_tokens",
        )
