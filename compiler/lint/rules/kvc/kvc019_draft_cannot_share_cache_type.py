"""The draft model cannot use the cache type of its target.

## What it flags
DSpark or DFlash with an `fp8_ds_mla` cache; DFlash with an fp8 cache below compute capability 8.9; a cache type of
its own for the draft of a hybrid model: an error with FlashInfer, whose words it is, else a warning.

## Why it hurts
The draft inherits the target's cache type and finds no backend for it: `No valid attention backend`. A cache type set
for the draft alone stops with `Unrecognized dtype: auto` on hybrids.

## Example
    hardware: 2x-a40
    settings: {kv_cache_dtype: fp8}
    speculation: {method: dflash, tokens: 7}

## Use instead
    settings: {kv_cache_dtype: auto}

## When to ignore
Never: the engine refuses.

## Source
vllm#48380, vllm#54690; dense 27B with DFlash2 on A40. 0.27.1 asked for such a draft builds it, so it fails later.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.backends import resolved
from compiler.lint.facts import is_fp8_cache, is_hybrid, kv_dtype, mapping, sm, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="KVC019", name="draft-cannot-share-cache-type", severity=Severity.ERROR, refusal=True,
    traps=("dflash-backend", "draft-inherits-ds-mla", "draft-kv-dtype-auto"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each cache type that the draft cannot use."""
    method = speculation_method(subject)
    place = speculation_place(subject)
    fix = "set kv_cache_dtype to auto, or turn speculation off"
    if method in ("dspark", "dflash") and kv_dtype(subject) == "fp8_ds_mla":
        yield Hit(place, f"a {method} draft with an fp8_ds_mla cache", "the draft has plain attention, which cannot read that layout", fix)
    elif method == "dflash" and is_fp8_cache(subject) and sm(subject) < 89:
        yield Hit(place, "a DFlash draft with an fp8 cache below compute capability 8.9", "no backend serves both", fix)
    own = str(mapping(subject, "speculative_config").get("kv_cache_dtype") or "")
    if own and is_hybrid(subject):
        # FlashAttention reads fp8 on Hopper alone; elsewhere FlashInfer serves such a draft.
        flashinfer = resolved(subject) == "FLASHINFER" or (own.startswith("fp8") and sm(subject) // 10 != 9)
        yield Hit(
            subject.setting_place("speculative_config"),
            "a cache type of its own for the draft of a hybrid model",
            "FlashInfer stops: `Unrecognized dtype: auto`",
            "leave the draft's kv_cache_dtype out",
            None if flashinfer else Severity.WARNING,
        )
