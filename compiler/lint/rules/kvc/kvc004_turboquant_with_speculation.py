"""A TurboQuant cache and speculative decoding are combined.

## What it flags
Any `turboquant_*` cache together with any method of speculation.

## Why it hurts
With MTP or n-grams the start is clean, health stays green, and the text degenerates into loops: packed cache and
multi-token verification disagree. With DSpark the engine finds no attention backend for the draft and exits.

## Example
    settings: {kv_cache_dtype: turboquant_k3v4_nc}
    speculation: {method: dspark, tokens: 8}

## Use instead
One of the two: `speculation: {method: off}`, or a 16-bit or fp8 cache.

## When to ignore
Never: wrong text that no probe notices is worse than a refusal.

## Source
`dspark-tq-init-failure`; vllm#40831, vllm#53180 (on the stock 0.27.1 image), vllm#52475, vllm#42808.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_turboquant, kv_dtype, speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="KVC004", name="turboquant-with-speculation", severity=Severity.ERROR, refusal=True,
    traps=("tq-dspark", "tq-spec-garbage", "tq-mtp-hybrid-0271", "tq-mtp-sm120", "tq-mtp-workspace"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when both are on."""
    if is_turboquant(subject) and speculates(subject):
        method = speculation_method(subject)
        why = "the engine finds no attention backend for the draft" if method in ("dspark", "dflash") else "output degenerates into loops"
        yield Hit(
            speculation_place(subject),
            f"{method} speculation with a {kv_dtype(subject)} cache",
            f"{why}; health probes stay green until then",
            "choose one: turn speculation off, or set kv_cache_dtype to auto or fp8",
        )
