"""An NVFP4 KV cache is asked for on a card or a model that has no kernel for it.

## What it flags
`kv_cache_dtype: nvfp4` outside compute capability 10.x up to release 0.27 (on 12.x in 0.27 alone: 0.25 served it there), or with
latent attention (MLA). A warning in 0.28 to 0.31 (on 12.x up to 0.30: 0.31 served it), where no backend declares it for this model's
heads, and with layers excepted.

## Why it hurts
Only data-center Blackwell has the kernels; from 0.32 on FlashInfer reads it on 8.x, 9.x and 12.x too, but not with heads of 64 or
sinks. Elsewhere the engine finds no backend. With MLA its configuration refuses in words. Excepted layers inflate the block and pad its pages.

## Example
    hardware: rtx-pro-6000
    settings: {kv_cache_dtype: nvfp4}

## Use instead
    hardware: rtx-pro-6000
    settings: {kv_cache_dtype: fp8}

## When to ignore
Never: the engine refuses.

## Source
`engine-nvfp4-kv-ada`, `engine-nvfp4-kv-sm120`; a start of 0.31 that served on an RTX 5090; vllm#46329; 0.27.1's configuration and its heterogeneous block
alignment; 0.32's and 0.33's FlashInfer backend.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.backends import described, nobody_serves
from compiler.lint.facts import LATENT_LAYERS, kv_dtype, layer_kinds, older, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="KVC007", name="nvfp4-cache-without-kernel", severity=Severity.ERROR, refusal=True,
    traps=("nvfp4kv-mla", "nvfp4kv-skip-layers-page"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the card, one for the model, and a warning for excepted layers."""
    if kv_dtype(subject) != "nvfp4":
        return
    place = subject.setting_place("kv_cache_dtype")
    fix = "set kv_cache_dtype to fp8"
    family = sm(subject) // 10
    served = family == 12 and (older(subject, 0, 27) or not older(subject, 0, 31))
    without_kernel = family != 10 and older(subject, 0, 32) and not served
    if without_kernel:
        what = f"no kernel is known to read an NVFP4 cache on compute capability {subject.plan.hardware.compute_capability}"
        # 0.27.1 was asked and refuses; 0.32's source has the kernels; when they came between the two nobody looked.
        yield Hit(place, what, "the engine finds no attention backend", fix, None if older(subject, 0, 28) else Severity.WARNING)
    unserved, latent = nobody_serves(subject), bool(layer_kinds(subject) & LATENT_LAYERS)
    if not without_kernel and unserved is not None and not latent:
        what = f"no backend of vLLM {subject.specs.flags.release} declares an NVFP4 cache for {described(subject, unserved)}"
        yield Hit(place, what, "the engine finds no attention backend", fix, severity=Severity.WARNING)
    if latent:
        yield Hit(place, "an NVFP4 cache with latent attention", "the engine's configuration refuses it", fix)
    if subject.setting("kv_cache_dtype_skip_layers"):
        yield Hit(
            subject.setting_place("kv_cache_dtype_skip_layers"),
            "layers excepted from an NVFP4 cache",
            "blocks grow until the quantized page covers the wide one, and the rest is padding",
            "plan with the padded page, or except no layer",
            severity=Severity.WARNING,
        )
