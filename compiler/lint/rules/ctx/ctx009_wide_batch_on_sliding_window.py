"""A wide batch multiplies what each request reserves in sliding-window layers.

## What it flags
A model with sliding or chunked layers, `max_num_batched_tokens` of 16,384 or more, async scheduling not switched off,
from release 0.26 on. An error where the plan does not fit.

## Why it hurts
Each request reserves its window plus all tokens in flight, and with async scheduling two batches are in flight: 70.79
instead of 45.79 GiB were asked for one request.

## Example
    model: gemma-3-27b
    settings: {max_num_batched_tokens: 32768}

## Use instead
    settings: {max_num_batched_tokens: 8192}

## When to ignore
When the plan still holds the wanted number of sessions.

## Source
vllm#49878; confirmed on H200 start-ups of 0.26.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import layer_kinds, older
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX009", name="wide-batch-on-sliding-window", severity=Severity.WARNING, traps=("sw-async-double-inflight",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when two wide batches are reserved."""
    width = subject.plan.engine.max_num_batched_tokens
    reserved_twice = subject.setting("async_scheduling") is not False and not older(subject, 0, 26)
    if layer_kinds(subject) & {"sliding", "chunked"} and width >= 16384 and reserved_twice:
        yield Hit(
            subject.setting_place("max_num_batched_tokens"),
            f"two batches of {width:,} tokens are reserved for each request in the window layers",
            "a request of the full window asks for tens of GiB more than the window itself",
            "set max_num_batched_tokens to 8192 or less",
            severity=Severity.ERROR if subject.plan.memory.verdict == "refused" else None,
        )
