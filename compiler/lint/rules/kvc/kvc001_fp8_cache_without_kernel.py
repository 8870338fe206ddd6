"""An fp8 KV cache is asked for where no attention kernel can read it.

## What it flags
An fp8 cache that no attention backend of the release serves for this model on this card; `attention_backend:
TRITON_ATTN` with one below compute capability 8.9; any below 8.9 on releases before 0.10. A warning where the flag
snapshot is another release's.

## Why it hurts
The engine refuses when it builds the attention layers: `No valid attention backend found`, or, since Triton cannot
cast fp8 there, `type fp8e4nv not supported in this architecture`.

## Example
    hardware: 2x-a40
    settings:
      kv_cache_dtype: fp8
      attention_backend: TRITON_ATTN

## Use instead
    settings:
      kv_cache_dtype: fp8          # leave the backend to the engine: FlashInfer serves it

## When to ignore
Never: the engine refuses.

## Source
`engine-fp8-kv-a40-no-flashinfer`, `engine-fp8-kv-a40-flashinfer`; Kimi-Linear with fp8 on an A40, refused by 0.27.1 itself (`podwright
verify`), as TRITON_MLA of 0.26.0 and 0.33.0 would; vllm#26431, vllm#50882, vllm#7714; what
each release's backends declare, in its flag snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.backends import described, nobody_serves, reads_cache
from compiler.lint.facts import is_fp8_cache, kv_dtype, older, on_gpu, sm
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight

RULE = Rule(
    code="KVC001", name="fp8-cache-without-kernel", severity=Severity.ERROR, refusal=True,
    traps=("fp8kv-triton-pre-ada", "fp8kv-e5m2-ampere", "fp8kv-chunked-ampere"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for a cache that no kernel reads."""
    if not is_fp8_cache(subject) or not on_gpu(subject):
        return
    backend, place = subject.setting("attention_backend"), subject.setting_place("kv_cache_dtype")
    if not subject.knows_model:
        yield from _forced(subject, str(backend))
    unserved = nobody_serves(subject)
    if unserved is not None:
        what = f"no attention backend of vLLM {subject.specs.flags.release} reads a {kv_dtype(subject)} cache for {described(subject, unserved)}"
        yield Hit(place, what, "the engine refuses while it builds the attention layers", "use a 16-bit cache", weight(subject))
    elif sm(subject) < 89 and (backend == "TRITON_ATTN" or older(subject, 0, 10)):
        by = "the forced TRITON_ATTN backend" if backend == "TRITON_ATTN" else f"release {subject.plan.engine.release}"
        yield Hit(
            subject.setting_place("attention_backend") if backend == "TRITON_ATTN" else place,
            f"{by} cannot read a {kv_dtype(subject)} cache on compute capability {subject.plan.hardware.compute_capability}",
            "the engine refuses while it builds the attention layers",
            "leave attention_backend unset, or use a 16-bit cache" if backend == "TRITON_ATTN" else "use a 16-bit cache, or a later release",
        )


def _forced(subject: Subject, name: str) -> Iterator[Hit]:
    """What holds for every model: the named backend reads no such cache on this card."""
    backend, dtype = subject.specs.flags.backends.get(name), kv_dtype(subject)
    if backend is not None and not reads_cache(subject, name, backend, dtype):
        what = f"the forced {name} backend cannot read a {dtype} cache on compute capability {subject.plan.hardware.compute_capability}"
        refused = "the engine refuses while it builds the attention layers"
        yield Hit(subject.setting_place("attention_backend"), what, refused, "leave attention_backend unset, or use a 16-bit cache", weight(subject))
