"""Nobody decides how wide a scheduling step is.

## What it flags
`max_num_batched_tokens` switched off (null) with any method of speculation, on a hybrid model, or elsewhere as an
information. Left out of a profile it is 8,192, which is fine.

## Why it hurts
The engine's own width is 2,048 below 70 GiB and with drafts: thirty-two streams fell from 1,166 to 296 tokens a
second. On hybrids of older releases a cache block does not even fit such a step.

## Example
    speculation: {method: ngram, tokens: 24}
    engine_args: {max_num_batched_tokens: null}

## Use instead
Remove the line, or write the width.

## When to ignore
When the engine's own choice is what is being measured.

## Source
`spec-batched-2048-32streams`, `spec-batched-fixed-32streams`; vllm#36734.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid, on_gpu, option_place, speculates, speculation_method
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX014", name="step-width-left-to-engine", severity=Severity.WARNING, traps=("spec-batched-2048",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the engine is left to decide."""
    if subject.setting("max_num_batched_tokens") is not None or not on_gpu(subject):
        return
    lowered = speculates(subject)
    yield Hit(
        option_place(subject, "max_num_batched_tokens"),
        "max_num_batched_tokens is left to the engine" + (f", with {speculation_method(subject)} speculation" if lowered else ""),
        "the engine takes 2,048 then, and a quarter of the throughput was left" if lowered else "its choice depends on the card's size",
        "write max_num_batched_tokens: 8192",
        severity=Severity.WARNING if lowered or is_hybrid(subject) else Severity.INFO,
    )
