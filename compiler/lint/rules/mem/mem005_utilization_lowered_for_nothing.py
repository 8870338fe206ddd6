"""The memory utilization is as low as TurboQuant needs, but the cache is another type.

## What it flags
`gpu_memory_utilization` of exactly 0.85 with an fp8 cache on a rented GPU, chosen without a reason.

## Why it hurts
0.85 is TurboQuant's limit. It was once applied to every explicit cache type by mistake, which gave away eight to ten
per cent of the cache.

## Example
    settings:
      kv_cache_dtype: fp8
      gpu_memory_utilization: 0.85

## Use instead
    settings:
      kv_cache_dtype: fp8
      gpu_memory_utilization: {value: 0.85, reason: "the publisher's command, kept as measured"}

## When to ignore
When the value is deliberate; better, give it a reason, and the rule is silent.

## Source
Bootstrap v86, where a shell expansion tested only that a cache type was set; `a40-qwen38-tq-oom-700k` for the limit
itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import has_reason, is_fp8_cache, utilization
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM005", name="utilization-lowered-for-nothing", severity=Severity.INFO, traps=("util-default-expands-any-kv",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when nobody says why the utilization is TurboQuant's."""
    rented = subject.specs.hardware.host.kind == "rented"
    unexplained = not has_reason(subject, "gpu_memory_utilization")
    if utilization(subject) == 0.85 and is_fp8_cache(subject) and rented and unexplained:
        yield Hit(
            subject.setting_place("gpu_memory_utilization"),
            "utilization 0.85 with an fp8 cache, and no reason given",
            "0.85 is what TurboQuant needs; with fp8 it gives cache away",
            "raise it, or give the choice a reason",
        )
