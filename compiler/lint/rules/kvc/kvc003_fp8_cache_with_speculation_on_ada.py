"""Speculation with an fp8 KV cache on Ada is three times slower than none.

## What it flags
Compute capability 8.9, an fp8 cache (chosen, or imposed by the checkpoint), and any method of speculation.

## Why it hurts
On Ada an fp8 cache leaves FlashInfer as the only backend, and FlashInfer cannot run the mixed CUDA graphs that drafts
need: 66 instead of 201 tokens a second were measured, with acceptance as good as elsewhere.

## Example
    hardware: rtx-6000-ada
    settings: {kv_cache_dtype: fp8}
    speculation: {method: mtp, tokens: 2}

## Use instead
    hardware: rtx-6000-ada
    settings: {kv_cache_dtype: fp8}
    speculation: {method: off}

## When to ignore
When this model was measured faster with drafts on this card; cite the run in the reason.

## Source
`ornith-nvfp4-mtp` against `ornith-nvfp4-ada-solo-3k`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_fp8_cache, sm, speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="KVC003", name="fp8-cache-with-speculation-on-ada", severity=Severity.WARNING,
    traps=("fp8-kv-ada-spec", "mtp-loses-ornith-nvfp4"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the three meet."""
    if sm(subject) == 89 and is_fp8_cache(subject) and speculates(subject):
        yield Hit(
            speculation_place(subject),
            f"{speculation_method(subject)} speculation with an fp8 cache on Ada",
            "the only backend left runs drafts without full graphs: 66 instead of 201 tokens a second were measured",
            "set speculation.method to off, or use a 16-bit cache where the checkpoint allows it",
        )
