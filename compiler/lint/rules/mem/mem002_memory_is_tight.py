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

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM002", name="memory-is-tight", severity=Severity.WARNING, traps=("ctx-1m-one-card", "graph-estimate-charged"))


def check(subject: Subject) -> Iterator[Hit]:
    """One hit with all reasons of a tight plan, those about state blocks left to MEM003."""
    memory = subject.plan.memory
    reasons = [reason for reason in memory.reasons if not reason.startswith("max_num_seqs")]
    if memory.verdict != "tight" or not reasons:
        return
    safe = memory.longest_context_safe
    shorter = f"stay at or below {safe:,} tokens, which fit at the low estimate, or " if safe > 0 else "no window fits at the low estimate: "
    yield Hit(
        subject.setting_place("max_model_len"),
        "it may not fit: " + " ".join(reasons),
        "the same profile can start on one host and be refused on the next",
        shorter + "lower what takes the memory",
    )
