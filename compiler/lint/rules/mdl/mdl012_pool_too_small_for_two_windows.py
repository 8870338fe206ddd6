"""A model with an offloaded table gets so small a cache that two sessions wait for each other.

## What it flags
A `qwen4_exp` model (Flash-Next) with a utilization below 0.93 and no fixed cache size.

## Why it hurts
At 0.88 five requests waited for capacity while two ran. At 0.93 the cache holds 504,841 tokens, fixed to a measured
size 596,630.

## Example
    model: flash-next
    settings: {gpu_memory_utilization: 0.88}

## Use instead
    settings:
      kv_cache_memory_bytes: {value: 15569256448, reason: measured with images, evidence: [flash-next-capacity/fn-kv-bytes-14-5g]}

## When to ignore
For one session at a time.

## Source
`fn-kv-util-088`, `fn-kv-util-093`, `fn-kv-bytes-14-5g`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import utilization
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MDL012", name="pool-too-small-for-two-windows", severity=Severity.WARNING,
    traps=("util-088-capacity-wait", "fn-util-093"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the share is below what two windows need."""
    table = subject.specs.model.architecture.model_type == "qwen4_exp"
    if table and subject.setting("kv_cache_memory_bytes") is None and utilization(subject) < 0.93:
        yield Hit(
            subject.setting_place("gpu_memory_utilization"),
            f"utilization {utilization(subject):g} for {subject.plan.model.slug}",
            "requests wait for cache while two run",
            "set gpu_memory_utilization to 0.93, or a measured kv_cache_memory_bytes",
        )
