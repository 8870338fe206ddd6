"""A hybrid's cache block is larger than a scheduling step on a release that needs the contrary.

## What it flags
A hybrid model with prefix caching in mode `align`, a planned block above `max_num_batched_tokens`, and a release
before 0.27.

## Why it hurts
Those releases assert that a block fits one step: `block size larger than max_num_batched_tokens`, often met with the
default of 2,048 and a block of 2,096.

## Example
    engine: vllm-0.26.0
    settings: {enable_prefix_caching: true}      # batch 2,048 by default on 48 GB

## Use instead
    settings: {enable_prefix_caching: true, max_num_batched_tokens: 8192}

## When to ignore
Never on those releases; from 0.27.1 on the rule is silent.

## Source
vllm#36734; the check is gone in the 0.27.1 source.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid, older
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX011", name="block-larger-than-batch", severity=Severity.ERROR, traps=("mamba-align-default-2048",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the block would not fit a step."""
    block, width = subject.plan.memory.block_size, subject.plan.engine.max_num_batched_tokens
    aligned = subject.setting("enable_prefix_caching") is True and subject.setting("mamba_cache_mode") in (None, "align")
    if is_hybrid(subject) and aligned and older(subject, 0, 27) and block > width:
        yield Hit(
            subject.setting_place("max_num_batched_tokens"),
            f"blocks of {block:,} tokens, and a step is {width:,} wide",
            f"release {subject.plan.engine.release} asserts that a block fits one step, and exits",
            f"set max_num_batched_tokens to {block:,} or more",
        )
