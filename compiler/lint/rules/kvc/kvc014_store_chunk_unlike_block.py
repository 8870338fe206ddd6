"""LMCache's chunk differs from the engine's cache block.

## What it flags
A `kv_store` whose `chunk` is not the planned block size, on a model with state layers.

## Why it hurts
States are valid only at block boundaries. With other chunks nothing can be restored, or the connector refuses.

## Example
    model: qwen38-nvfp4          # blocks of 1,600 tokens
    kv_store: {size_gib: 32, chunk: 256}

## Use instead
    kv_store: {size_gib: 32, chunk: 1600}

## When to ignore
When the engine's log shows another block (`Setting attention block size to N`) and the chunk follows it; then correct
the geometry.

## Source
Bootstrap v81, which reads the block from the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import is_hybrid
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC014", name="store-chunk-unlike-block", severity=Severity.ERROR, traps=("lmcache-chunk",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when chunk and block differ."""
    store = subject.plan.kv_store
    block = subject.plan.memory.block_size
    if store is not None and is_hybrid(subject) and store.chunk_tokens != block:
        place = subject.place("profile", "kv_store", "chunk")
        what = f"LMCache chunks of {store.chunk_tokens:,} tokens, and the engine's blocks are {block:,}"
        why = "states can be restored only at block boundaries"
        yield Hit(place, what, why, f"set kv_store.chunk to {block}", edit=Edit("set", place, block))
