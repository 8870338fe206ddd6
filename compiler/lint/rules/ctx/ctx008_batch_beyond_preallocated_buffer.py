"""The batch is wider than a buffer that this engine build allocates once.

## What it flags
`max_num_batched_tokens` above 4,096 on an engine whose spec lists the limit `gdn-buffer-4096` (the Genesis patch
set).

## Why it hurts
Its Gated DeltaNet buffer is sized for 4,096 tokens whatever the batch. A larger forward pass kills the engine after
an hour or two, when prefills and decodes first combine to more.

## Example
    engine: genesis
    settings: {max_num_batched_tokens: 8192}

## Use instead
    settings: {max_num_batched_tokens: 4096}      # stock releases from 0.28 on tolerate 8192

## When to ignore
Never on such a build.

## Source
`l-batch8192-crash`, `l-v028-batch8192`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX008", name="batch-beyond-preallocated-buffer", severity=Severity.ERROR, traps=("gdn-buffer-4096",))


LIMIT, BUFFER = "gdn-buffer-4096", 4096


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the batch can outgrow the buffer."""
    width = subject.plan.engine.max_num_batched_tokens
    if LIMIT in subject.specs.engine.limits and width > BUFFER:
        yield Hit(
            subject.setting_place("max_num_batched_tokens"),
            f"steps of {width:,} tokens on an engine whose buffer holds {BUFFER:,}",
            "the first forward pass that combines to more kills the engine, in service",
            f"set max_num_batched_tokens to {BUFFER} or less, or use a stock release",
        )
