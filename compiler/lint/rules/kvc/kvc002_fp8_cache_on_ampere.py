"""An fp8 KV cache on an Ampere card depends on one attention backend.

## What it flags
An fp8 cache on compute capability 8.0 to 8.8.

## Why it hurts
FlashAttention reads a quantized cache only on Hopper and data-center Blackwell, so the engine takes FlashInfer, and
refuses to start where FlashInfer is not installed. Latent attention (MLA) has no backend for it there, which KVC001 says. Decoding is slower
than with a 16-bit cache, and DFlash drafts cannot use it.

## Example
    hardware: a40
    settings:
      kv_cache_dtype: fp8

## Use instead
A 16-bit cache where it holds the window; fp8 where capacity matters more than speed.

## When to ignore
When the capacity is needed; the reason on the setting says so to the next reader.

## Source
`engine-fp8-kv-a40-flashinfer`, `engine-fp8-kv-a40-no-flashinfer`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.backends import needs, nobody_serves, serving
from compiler.lint.facts import is_fp8_cache, kv_dtype, older, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC002", name="fp8-cache-on-ampere", severity=Severity.INFO, traps=("fp8-kv-ampere", "dflash-backend"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for an fp8 cache on Ampere that KVC001 does not refuse."""
    refused = subject.setting("attention_backend") == "TRITON_ATTN" or older(subject, 0, 10)
    if is_fp8_cache(subject) and 80 <= sm(subject) < 89 and not refused and nobody_serves(subject) is None:
        names = sorted({name for need in needs(subject) for name in serving(subject, need, kv_dtype(subject))}) or ["FLASHINFER"]
        yield Hit(
            subject.setting_place("kv_cache_dtype"),
            f"an fp8 cache on compute capability {subject.plan.hardware.compute_capability} is served by {' and '.join(names)} alone",
            "where the image lacks what it needs the engine refuses, and decoding can be slower than with 16 bits",
            "keep it where capacity matters; else set kv_cache_dtype to auto",
        )
