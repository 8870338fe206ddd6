"""A GPT-OSS checkpoint fills most of one card, and the batch is wider than what started.

## What it flags
A `gpt_oss` model whose weights take more than 70 % of a single GPU, with `max_num_batched_tokens` above 2,048.

## Why it hurts
After an upgrade one H100 ran out of memory at its start: a batch of 5,120 tokens and the graphs no longer fitted
beside 120 billion parameters in MXFP4.

## Example
    model: gpt-oss-120b
    hardware: h100-sxm
    settings: {max_num_batched_tokens: 8192}

## Use instead
    settings: {max_num_batched_tokens: 2048, gpu_memory_utilization: 0.95}

## When to ignore
When this release started with it on this card.

## Source
vllm#33155.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import vram_gib
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM014", name="wide-batch-beside-heavy-experts", severity=Severity.WARNING, traps=("gptoss-upgrade-oom",))


SHARE, WIDEST = 0.7, 2048


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when experts leave no room for a wide batch."""
    plan = subject.plan
    heavy = plan.hardware.count == 1 and plan.memory.weights_gib > SHARE * vram_gib(subject)
    if subject.specs.model.architecture.model_type == "gpt_oss" and heavy and plan.engine.max_num_batched_tokens > WIDEST:
        yield Hit(
            subject.setting_place("max_num_batched_tokens"),
            f"steps of {plan.engine.max_num_batched_tokens:,} tokens beside {plan.memory.weights_gib:.0f} GiB of weights",
            "the start ran out of memory with a step of 5,120 tokens",
            f"set max_num_batched_tokens to {WIDEST} or less",
        )
