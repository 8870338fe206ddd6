"""Context or data parallelism does not go with this model.

## What it flags
`decode_context_parallel_size` above 1 on a model without latent attention, where the tensor-parallel ranks are not more than its KV heads,
the size is above ranks over heads, or query heads for each KV head are no multiple of it; a data-parallel rank given by hand to a dense model.

## Why it hurts
Context parallelism shares out what several ranks would keep twice: without copies of KV heads there is nothing to share, and the engine
refuses. A dense model's replicas have nothing to agree on, so the engine refuses to be one rank of them.

## Example
    model: qwen3-coder-awq          # 4 KV heads
    settings: {tensor_parallel_size: 2}
    engine_args: {decode_context_parallel_size: 2}

## Use instead
    settings: {tensor_parallel_size: 2}

## When to ignore
Never: the engine refuses.

## Source
`verify_with_parallel_config` of 0.27.1 and 0.33.0, and its assertions in 0.26.0 (vllm#49777); `create_engine_config` of all three.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import LATENT_LAYERS, layer_kinds, number
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import option_place

RULE = Rule(code="MDL017", name="parallel-layout-refused", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for context parallelism, and one for a dense model's rank."""
    shares = number(subject, "decode_context_parallel_size") or 1
    obstacle = _obstacle(subject, int(shares)) if shares > 1 else None
    if obstacle is not None:
        place, what = option_place(subject, "decode_context_parallel_size"), f"decode_context_parallel_size {shares:g}: {obstacle}"
        yield Hit(place, what, "the engine refuses the layout", "leave it at 1, or raise tensor_parallel_size", weight(subject))
    if number(subject, "data_parallel_rank") is not None and subject.specs.model.architecture.experts == 0:
        what, why = "a data-parallel rank for a dense model", "the engine refuses: such replicas have nothing to agree on"
        fix = "start each replica by itself, without data-parallel options"
        yield Hit(option_place(subject, "data_parallel_rank"), what, why, fix, weight(subject))


def _obstacle(subject: Subject, shares: int) -> str | None:
    architecture, ranks = subject.specs.model.architecture, subject.plan.engine.tensor_parallel
    heads = max((layer.kv_heads for layer in architecture.kv if layer.kind in ("full", "sliding", "chunked")), default=0)
    if layer_kinds(subject) & LATENT_LAYERS or not heads:
        return None
    if ranks <= heads:
        return f"{ranks} ranks for {heads} KV heads leave no copies to share out"
    if shares > ranks // heads:
        return f"{ranks} ranks keep {ranks // heads} copies of {heads} KV heads"
    queries = architecture.attention_heads // heads if architecture.attention_heads else 0
    return f"{queries} query heads for each KV head are no multiple of it" if queries and queries % shares else None
