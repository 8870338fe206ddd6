"""A cache in fp8_e5m2 for a checkpoint whose method brings fp8 scales of its own.

## What it flags
`kv_cache_dtype: fp8_e5m2` with a checkpoint of the methods `fp8`, `modelopt` (all its kinds) or `quark`, or one of
compressed-tensors that declares a scheme for the cache.

## Why it hurts
Such a checkpoint's attention layers read scales for e4m3; the engine refuses the other format when it builds the first layer.

## Example
    model: ornith-fp8
    settings: {kv_cache_dtype: fp8_e5m2}

## Use instead
    settings: {kv_cache_dtype: fp8}

## When to ignore
Never: the engine refuses.

## Source
The attention layer's cache scales in 0.26.0, 0.27.1 and 0.33.0; vllm#8409.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC022", name="e5m2-cache-beside-fp8-weights", severity=Severity.ERROR, refusal=True)

WITH_SCALES = frozenset({"fp8", "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "quark"})


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the pair."""
    if subject.setting("kv_cache_dtype") != "fp8_e5m2":
        return
    quantization = subject.specs.model.quantization
    if quantization.method in WITH_SCALES or (quantization.method == "compressed-tensors" and quantization.kv_cache_scheme is not None):
        yield Hit(
            subject.setting_place("kv_cache_dtype"),
            f"an fp8_e5m2 cache for weights of the method {quantization.method}",
            "the engine refuses: the checkpoint's scales are for e4m3",
            "set kv_cache_dtype to fp8 on compute capability 8.9 and later, or to auto",
        )
