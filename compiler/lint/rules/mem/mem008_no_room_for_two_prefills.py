"""A fixed KV cache leaves too little beside it for two prefills of a full window.

## What it flags
`kv_cache_memory_bytes` with a plan that leaves less free memory than two simultaneous full prefills take beyond one
batch.

## Why it hurts
The engine profiles about one prefill. Two at once took 3.2 GiB on a 96 GB card and killed an engine that had served
for hours.

## Example
    settings:
      kv_cache_memory_bytes: 17GiB      # 2.1 GiB stay free

## Use instead
    settings:
      kv_cache_memory_bytes: 15GiB

## When to ignore
When two simultaneous prefills of the whole window were served with this very size.

## Source
`fn-kv-bytes-17g`, `fn-vram-free-17g`, `fn-activation-reserve`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.plan.memory import MemoryWarning

RULE = Rule(
    code="MEM008", name="no-room-for-two-prefills", severity=Severity.WARNING,
    traps=("kvbytes-kills-in-service", "kvbytes-skips-profiling"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the planner warns of the transient."""
    memory = subject.plan.memory
    fixed = subject.setting("kv_cache_memory_bytes") is not None
    if fixed and MemoryWarning.TWO_FULL_PREFILLS_TRANSIENT in memory.warnings:
        free = next((part.gib for part in memory.parts if part.name == "free"), 0.0)
        yield Hit(
            subject.setting_place("kv_cache_memory_bytes"),
            f"{max(0.0, free):.1f} GiB stay free beside the fixed cache",
            "two prefills of a full window at once took 3.2 GiB, and the engine died where they were missing",
            "lower kv_cache_memory_bytes, or cite a run in which two such prefills were served",
        )
