"""The checkpoint, not the profile, decides the type of the KV cache.

## What it flags
`kv_cache_dtype` unset or `auto` with a checkpoint whose config carries a KV cache scheme.

## Why it hurts
The same flags hold twice the tokens of a sibling checkpoint, and choose other attention kernels. A reader of the
profile cannot see it.

## Example
    model: ornith-nvfp4          # its quantization config imposes fp8

## Use instead
    settings:
      kv_cache_dtype: {value: fp8, reason: what the checkpoint imposes}

## When to ignore
When the profile's notes say so already.

## Source
vllm-project/recipes#810; `ornith-nvfp4-kv`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.backends import nobody_serves
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="KVC008", name="checkpoint-chooses-cache-type", severity=Severity.WARNING,
    traps=("modelopt-forces-fp8-kv", "fp8-checkpoint-cache-auto"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when `auto` becomes something else."""
    scheme = subject.specs.model.quantization.kv_cache_scheme
    if scheme is not None and subject.setting("kv_cache_dtype") in (None, "auto"):
        yield Hit(
            subject.setting_place("kv_cache_dtype"),
            f"the checkpoint's config turns the KV cache into {scheme}",
            "capacity and attention kernels follow from it, and the profile does not show it",
            f"write `kv_cache_dtype: {scheme}`, with this as its reason" if nobody_serves(subject) is None else "write a type that can be read here",
        )
