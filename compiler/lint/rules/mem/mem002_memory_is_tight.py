"""The plan fits only if the engine's own overhead stays small.

## What it flags
A plan whose memory verdict is `tight`: one full window fits the expected cache but not the smallest one that is
possible, or growth beyond the budget may find no room.

## Why it hurts
Overhead differs between cold and warm starts (0.5 GiB on an H200) and between drivers, so the same profile starts
today and is refused tomorrow.

## Example
    settings:
      max_model_len: 262144       # 9.9 GiB of cache needed, 9.6 to 10.4 GiB expected

## Use instead
    settings:
      max_model_len: 245760       # at or below the safe length that the message names

## When to ignore
When this configuration has started cold on this card and the start is in the evidence.

## Source
H200 start-ups of 2026-11-29 (`h200-dense-bf16` against `h200-dense-bf16-warm`); vllm#30515.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.plan.memory import MemoryPlan

RULE = Rule(code="MEM002", name="memory-is-tight", severity=Severity.WARNING, traps=("ctx-1m-one-card", "graph-estimate-charged"))


def check(subject: Subject) -> Iterator[Hit]:
    """One hit with all reasons of a tight plan, those about state blocks left to MEM003."""
    memory = subject.plan.memory
    reasons = [reason for reason in memory.reasons if not reason.startswith("max_num_seqs")]
    if memory.verdict != "tight" or not reasons:
        return
    safe, why = memory.longest_context_safe, "the same profile can start on one host and be refused on the next"
    if safe >= memory.max_model_len:  # The window surely fits; what grows beside the cache does not.
        fixed = subject.setting("kv_cache_memory_bytes") is not None
        name = "kv_cache_memory_bytes" if fixed else "gpu_memory_utilization"
        yield Hit(subject.setting_place(name), "it may not fit: " + " ".join(reasons), why, _lower(name, memory))
        return
    shorter = f"stay at or below {safe:,} tokens, which fit at the low estimate, or " if safe > 0 else "no window fits at the low estimate: "
    yield Hit(
        subject.setting_place("max_model_len"),
        "it may not fit: " + " ".join(reasons),
        why,
        shorter + "lower what takes the memory",
    )


def _lower(name: str, memory: MemoryPlan) -> str:
    """To leave the card more beside the share, with the share where the plan tells it."""
    free = memory.parts[-1].gib
    if name != "gpu_memory_utilization" or free >= 0:
        return f"lower {name}; the window is not what is short"
    most = math.floor(100 * (memory.utilization + free / memory.total_gib)) / 100
    return f"set gpu_memory_utilization to {most:.2f} or less; the window is not what is short"
