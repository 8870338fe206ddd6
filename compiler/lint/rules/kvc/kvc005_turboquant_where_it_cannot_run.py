"""A TurboQuant cache is asked for where the engine cannot serve it.

## What it flags
A `turboquant_*` cache with a forced `attention_backend` (TURBOQUANT itself passes on hybrid models only, since dense
ones keep 16-bit boundary layers), below compute capability 8.0, with a latent-attention (MLA) model, or, on a hybrid
model, with a release before 0.27 and chunks above 4,096 tokens.

## Why it hurts
Only TurboQuant's own backend reads its packed pages, and it reads prompts with FlashAttention 2: on cards without it the engine
starts, and the first prompt kills it. Before the summer
2026 releases a chunked continuation prefill of a hybrid model overran its workspace and killed the engine.

## Example
    settings:
      kv_cache_dtype: turboquant_k3v4_nc
      attention_backend: FLASHINFER

## Use instead
    settings:
      kv_cache_dtype: turboquant_k3v4_nc      # no attention_backend

## When to ignore
Never: the engine refuses or dies.

## Source
vllm#41726; `l-chunked-253503` for the repaired release; 0.27.1 asked on an A40 card: forced backends and latent attention are
refused; its backend's prefill for cards of 7.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import LATENT_LAYERS, is_hybrid, is_turboquant, kv_dtype, layer_kinds, older, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="KVC005", name="turboquant-where-it-cannot-run", severity=Severity.ERROR, refusal=True,
    traps=("tq-flashinfer", "tq-turing", "chunked-prefill-41726", "tq-prefill-workspace"),
)  # fmt: skip


PROVEN_CHUNK = 4096


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each obstacle."""
    if not is_turboquant(subject):
        return
    capability, backend = subject.plan.hardware.compute_capability, subject.setting("attention_backend")
    own = backend == "TURBOQUANT" and is_hybrid(subject)
    wide = subject.setting("enable_chunked_prefill") is not False and subject.plan.engine.max_num_batched_tokens > PROVEN_CHUNK
    obstacles = (
        (backend is not None and not own, "attention_backend", f"attention_backend {backend} cannot serve all its layers"),
        (sm(subject) < 80, "kv_cache_dtype", f"compute capability {capability} has no FlashAttention 2"),
        (bool(layer_kinds(subject) & LATENT_LAYERS), "kv_cache_dtype", "latent attention has no packed layout"),
        (is_hybrid(subject) and wide and older(subject, 0, 27), "kv_cache_dtype", "this release dies on wide chunked prefills of hybrids"),
    )
    for applies, setting, what in obstacles:
        if applies:
            yield Hit(
                subject.setting_place(setting),
                f"a {kv_dtype(subject)} cache cannot be served: {what}",
                "the engine exits at the start, or at the first prompt that needs it",
                "remove the obstacle, or use a 16-bit or fp8 cache",
            )
