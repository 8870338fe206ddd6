"""An fp8 cache of DeepSeek-V3.1's latent attention crashes this release under load.

## What it flags
DeepSeek-V3.1 with an fp8 cache, `max_num_seqs` of 5 or more, and a release before 0.16.

## Why it hurts
An illegal memory access kills the engine as soon as five requests run together. One request alone works, so a smoke
test passes.

## Example
    engine: vllm-0.15.0
    settings: {kv_cache_dtype: fp8, max_num_seqs: 64}

## Use instead
A release from 0.16 on, or a 16-bit cache.

## When to ignore
When the build carries the repair.

## Source
vllm#33664.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import LATENT_LAYERS, is_fp8_cache, layer_kinds, older
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC020", name="fp8-latent-cache-fault", severity=Severity.WARNING, traps=("mla-fp8kv-dsv31-crash",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when five may run together."""
    model = subject.specs.model
    names = f"{model.architecture.family} {model.checkpoint.repo or ''}".lower().replace("_", "-").replace("v3-1", "v3.1")
    latent = "deepseek-v3.1" in names and bool(layer_kinds(subject) & LATENT_LAYERS)
    crowded = subject.plan.engine.max_num_seqs >= 5
    if latent and is_fp8_cache(subject) and crowded and older(subject, 0, 16):
        yield Hit(
            subject.setting_place("kv_cache_dtype"),
            f"an fp8 cache for {subject.plan.model.slug} with release {subject.plan.engine.release}",
            "five concurrent requests end in an illegal memory access",
            "take release 0.16 or later, or set kv_cache_dtype to auto",
        )
