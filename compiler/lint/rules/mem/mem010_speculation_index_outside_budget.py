"""A speculation method that grows with the served context has no room beyond the budget.

## What it flags
N-gram or DFlash speculation where less than 4 GiB of the card lies beyond the utilization.

## Why it hurts
The index of past tokens is kept outside the budget and grows while contexts are served: 4 GiB in a long run. Short
tests do not show it.

## Example
    speculation: {method: dflash, tokens: 7}
    settings:
      gpu_memory_utilization: 0.85      # 3.6 GiB beyond it on a 24 GB card

## Use instead
    settings:
      gpu_memory_utilization: 0.68

## When to ignore
When an hours-long run at full windows stayed level.

## Source
`l-w2-soak`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu, reserved_gib, speculation_method, utilization, vram_gib
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM010", name="speculation-index-outside-budget", severity=Severity.WARNING, traps=("vram-grows-soak",))


GROWTH_GIB = 4.0


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the index would meet the end of the card."""
    if speculation_method(subject) not in ("ngram", "ngram_gpu", "dflash"):
        return
    beyond = vram_gib(subject) * (1 - utilization(subject)) - reserved_gib(subject)
    if on_gpu(subject) and beyond < GROWTH_GIB:
        yield Hit(
            subject.setting_place("gpu_memory_utilization"),
            f"{max(0.0, beyond):.1f} GiB lie beyond the budget, and the speculation index grows by up to {GROWTH_GIB:.0f} GiB",
            "memory runs out after hours of service, when contexts have grown",
            "lower gpu_memory_utilization, or turn speculation off",
        )
