"""The forced attention backend does not support this card, model or cache.

## What it flags
An `attention_backend` that the release declares for other compute capabilities, KV cache types, head widths or
windows than these; one for latent attention (MLA) on a plain model or the other way round; FLASH_ATTN with an fp8
cache outside Hopper and data-center Blackwell.

## Why it hurts
The engine refuses while it builds the first attention layer, after the download: `Selected backend ... is not valid
for this configuration`.

## Example
    hardware: rtx-6000-ada
    settings: {attention_backend: FLASHMLA}

## Use instead
Leave `attention_backend` unset: the engine takes the best one that can serve.

## When to ignore
Never: the engine refuses.

## Source
What each release's backends declare, in its flag snapshot; 0.27.1 asked on an Ada card. TurboQuant is KVC005's.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import LATENT_LAYERS, is_fp8_cache, is_turboquant, kv_dtype, layer_kinds, on_gpu, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT017", name="attention-backend-cannot-serve", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each obstacle that the backend's declaration shows."""
    name = subject.setting("attention_backend")
    backend = subject.specs.flags.backends.get(str(name))
    if name is None or backend is None or is_turboquant(subject) or not on_gpu(subject):
        return
    dtype, kinds, have = kv_dtype(subject), layer_kinds(subject), subject.plan.hardware.compute_capability
    latent, attention = bool(kinds & LATENT_LAYERS), kinds & {"full", "sliding", "chunked"}
    heads = {layer.head_dim for layer in subject.specs.model.architecture.kv if layer.kind in ("full", "sliding", "chunked")}
    flash_fp8 = name == "FLASH_ATTN" and is_fp8_cache(subject) and sm(subject) // 10 not in (9, 10)
    obstacles = (
        (have not in backend.capabilities, f"it does not run on compute capability {have}"),
        ((dtype != "auto" and dtype not in backend.kv_cache_dtypes) or flash_fp8, f"it cannot read a {dtype} cache here"),
        (latent and "is_mla" not in backend.abilities, "the model has latent attention"),
        (bool(attention) and not latent and "is_mla" in backend.abilities, "the model has no latent attention"),
        (bool(backend.head_sizes and heads - set(backend.head_sizes)) and not latent, f"heads are {max(heads, default=0)} wide"),
        ("sliding" in kinds and "supports_sliding_window" not in backend.abilities, "some layers have a sliding window"),
    )
    for applies, why in obstacles:
        if applies:
            what = f"attention_backend {name} cannot serve {subject.plan.model.slug}: {why}"
            place, refused = subject.setting_place("attention_backend"), "the engine refuses while it builds the first layer"
            yield Hit(place, what, refused, "leave attention_backend unset")
