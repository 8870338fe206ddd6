"""The batch width contradicts the other limits of the scheduler.

## What it flags
`max_num_batched_tokens` below `max_num_seqs`; below the window while chunked prefill is off; or a
`long_prefill_token_threshold` above the window.

## Why it hurts
The engine's configuration refuses each of them before anything is loaded.

## Example
    settings: {max_num_seqs: 256, max_num_batched_tokens: 128}

## Use instead
    settings: {max_num_seqs: 64, max_num_batched_tokens: 8192}

## When to ignore
Never: the engine refuses.

## Source
`engine-batch-below-seqs`; 0.27.1's `SchedulerConfig.verify_max_model_len`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import number
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX010", name="batch-width-refused", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each contradiction."""
    engine = subject.plan.engine
    width = engine.max_num_batched_tokens
    place = subject.setting_place("max_num_batched_tokens")
    if width < engine.max_num_seqs:
        yield Hit(
            place, f"max_num_batched_tokens {width:,} is below max_num_seqs {engine.max_num_seqs:,}",
            "each sequence decodes at least one token in a step, so the engine refuses",
            f"raise max_num_batched_tokens to {engine.max_num_seqs:,} or more, or lower max_num_seqs",
        )  # fmt: skip
    window = engine.max_model_len
    if subject.setting("enable_chunked_prefill") is False and width < window:
        yield Hit(
            place, f"max_num_batched_tokens {width:,} is below the window of {window:,}, and chunked prefill is off",
            "a prompt must then fit one step, so the engine refuses", "leave chunked prefill on",
        )  # fmt: skip
    threshold = number(subject, "long_prefill_token_threshold") or 0
    if threshold > window:
        yield Hit(
            subject.setting_place("long_prefill_token_threshold"), f"long prefills start at {threshold:,}, above the window of {window:,}",
            "the engine refuses a threshold that no prompt can reach", f"set it below {window:,}",
        )  # fmt: skip
