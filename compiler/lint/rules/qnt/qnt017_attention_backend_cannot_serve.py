"""No attention backend, or not the forced one, supports this card, model and cache.

## What it flags
An `attention_backend` that the release declares for other compute capabilities, KV cache types, head widths or
windows than these; one for latent attention (MLA) on a plain model or the other way round; one without attention
sinks for gpt-oss; fp8 in FLASH_ATTN or TRITON_ATTN where the card lacks it. With none forced, a cache of whole or
packed numbers that no backend serves; KVC001 and KVC007 speak for fp8 and NVFP4.

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
from compiler.lint.backends import described, has_sinks, nobody_serves, reads_cache, reads_sinks, runs_on
from compiler.lint.facts import LATENT_LAYERS, is_turboquant, kv_dtype, layer_kinds, on_gpu
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.schema.flags import AttentionBackend

RULE = Rule(code="QNT017", name="attention-backend-cannot-serve", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each obstacle that the backend's declaration shows."""
    name = subject.setting("attention_backend")
    backend, soft = subject.specs.flags.backends.get(str(name)), weight(subject)
    if not subject.knows_model:
        yield from _not_on_card(subject, name, backend)
    unserved = nobody_serves(subject)
    if name is None and unserved is not None and not kv_dtype(subject).startswith(("fp8", "nvfp4")):
        what = f"no attention backend reads a {kv_dtype(subject)} cache for {described(subject, unserved)}"
        yield Hit(subject.setting_place("kv_cache_dtype"), what, "the engine finds no backend and exits", "use a 16-bit cache", soft)
    if name is None or backend is None or is_turboquant(subject) or not on_gpu(subject):
        return
    dtype, kinds, have = kv_dtype(subject), layer_kinds(subject), subject.plan.hardware.compute_capability
    latent, attention = bool(kinds & LATENT_LAYERS), kinds & {"full", "sliding", "chunked"}
    heads = {layer.head_dim for layer in subject.specs.model.architecture.kv if layer.kind in ("full", "sliding", "chunked")}
    told = name == "TRITON_ATTN" and dtype.startswith("fp8")  # KVC001 says it
    fix = "leave attention_backend unset" if unserved is None else "leave attention_backend unset, and use a 16-bit cache"
    obstacles = (
        (not runs_on(subject, backend), f"it does not run on compute capability {have}"),
        (not reads_cache(subject, str(name), backend, dtype) and not told, f"it cannot read a {dtype} cache here"),
        (has_sinks(subject) and not reads_sinks(subject, str(name), backend, dtype), "the model has attention sinks"),
        (latent and "is_mla" not in backend.abilities, "the model has latent attention"),
        (bool(attention) and not latent and "is_mla" in backend.abilities, "the model has no latent attention"),
        (bool(backend.head_sizes and heads - set(backend.head_sizes)) and not latent, f"heads are {max(heads, default=0)} wide"),
        ("sliding" in kinds and "supports_sliding_window" not in backend.abilities, "some layers have a sliding window"),
    )
    for applies, why in obstacles:
        if applies:
            what = f"attention_backend {name} cannot serve {subject.plan.model.slug}: {why}"
            place, refused = subject.setting_place("attention_backend"), "the engine refuses while it builds the first layer"
            yield Hit(place, what, refused, fix, soft)


def _not_on_card(subject: Subject, name: object, backend: AttentionBackend | None) -> Iterator[Hit]:
    """What holds for every model: the backend does not run on this card."""
    if backend is not None and on_gpu(subject) and not runs_on(subject, backend):
        what = f"attention_backend {name} does not run on compute capability {subject.plan.hardware.compute_capability}"
        refused = "the engine refuses while it builds the first layer"
        yield Hit(subject.setting_place("attention_backend"), what, refused, "leave attention_backend unset", weight(subject))
