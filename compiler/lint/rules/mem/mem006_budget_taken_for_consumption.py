"""On a card that others use too, the budget plus what grows beside it exceeds the memory.

## What it flags
A host that drives a display or reserves GPU memory, where utilization times memory plus 2.8 GiB exceeds what the
others leave.

## Why it hurts
The utilization bounds a plan, not the process: 2.1 to 2.8 GiB (graphs, temporary tensors of experts, pools) were seen
beyond it. A desktop's share moves besides: it broke three starts in nineteen days.

## Example
    settings:
      gpu_memory_utilization: 0.85      # 24 GB card under WSL2 with a desktop

## Use instead
    settings:
      gpu_memory_utilization: 0.70

## When to ignore
When the process was measured on this host after an hour of service.

## Source
`l-overbudget`, `l-wsl2-tax`; a logbook of nineteen days on two RTX 4090.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import reserved_gib, utilization, vram_gib
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM006", name="budget-taken-for-consumption", severity=Severity.WARNING, traps=("budget-not-consumption", "desktop-gpu"))


GROWTH_GIB = (2.1, 2.8)  # seen beyond the budget on 24 GB cards, least and most


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the most that was seen beyond the budget does not fit beside the others."""
    host = subject.specs.hardware.host
    if not (host.drives_display or host.reserved) or subject.setting("kv_cache_memory_bytes") is not None:
        return
    available = vram_gib(subject) - reserved_gib(subject)
    budget = utilization(subject) * vram_gib(subject)
    if budget + GROWTH_GIB[1] > available:
        highest = math.floor((available - GROWTH_GIB[1]) / vram_gib(subject) * 100) / 100
        lower = f"set gpu_memory_utilization to {highest:.2f} or less" if highest > 0 else "free the card: nothing is left for an engine"
        yield Hit(
            subject.setting_place("gpu_memory_utilization"),
            f"the budget is {budget:.1f} GiB, up to {GROWTH_GIB[1]} GiB grow beside it, others leave {available:.1f} GiB",
            "the start fails, or succeeds only while the desktop holds little",
            lower,
        )
