"""Native KV offload keeps nothing useful of a hybrid model.

## What it flags
`kv_offloading_size` on a model with state layers (Flash-Next among them), without LMCache as its backend.

## Why it hurts
The states live outside the paged blocks that the offload moves, so a block that comes back is useless: no hit was
ever seen.

## Example
    model: qwen38-nvfp4
    settings: {kv_offloading_size: 32}

## Use instead
    model: qwen38-nvfp4
    kv_store: {size_gib: 32, chunk: 1600}

## When to ignore
When a later release offloads states too; cite a run with hits.

## Source
Bootstrap v81; a trial in which the counters stayed at zero.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC013", name="native-offload-of-a-hybrid", severity=Severity.WARNING, traps=("native-offload-hybrid", "eviction-lost"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the states would stay behind."""
    size = subject.setting("kv_offloading_size")
    keeps_states = is_hybrid(subject) or subject.specs.model.architecture.model_type == "qwen4_exp"
    if size and keeps_states and subject.setting("kv_offloading_backend") != "lmcache":
        yield Hit(
            subject.setting_place("kv_offloading_size"),
            f"{size} GiB of host memory for evicted blocks of a hybrid model",
            "states are not moved with the blocks, so nothing that comes back can be used",
            "use kv_store (LMCache) instead, or leave offload out",
        )
