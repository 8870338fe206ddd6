"""A hybrid model on a Blackwell card of 12.x has less than 3 GiB of cache beyond one window.

## What it flags
Compute capability 12.x, whatever the card's size, a hybrid model, and an expected cache of less than one full window plus 3 GiB.

## Why it hurts
The activation peak of Gated DeltaNet layers is under-counted there, and the cache swings by 0.28 to 2.99 GiB between
cold starts.

## Example
    settings:
      max_model_len: 131072
      gpu_memory_utilization: 0.95

## Use instead
    settings:
      max_model_len: 98304        # or utilization 0.03 lower, or a measured kv_cache_memory_bytes

## When to ignore
When ten cold starts in a row kept the window.

## Source
noonghunna/club-3090, its list of upstream faults; vllm#44209.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM012", name="thin-margin-of-blackwell-hybrid", severity=Severity.WARNING, traps=("hybrid-pool-jitter",))


MARGIN_GIB = 3.0


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the swing could take the window."""
    memory = subject.plan.memory
    fixed = subject.setting("kv_cache_memory_bytes") is not None
    if memory.verdict != "refused" and sm(subject) >= 120 and is_hybrid(subject) and not fixed and memory.kv_gib.mid - memory.needed_gib < MARGIN_GIB:
        yield Hit(
            subject.setting_place("gpu_memory_utilization"),
            f"{memory.kv_gib.mid:.1f} GiB of cache for a window of {memory.needed_gib:.1f} GiB",
            "on these cards a hybrid's cache swings by up to 3 GiB between cold starts",
            "lower max_model_len, or fix the cache with a measured kv_cache_memory_bytes",
        )
