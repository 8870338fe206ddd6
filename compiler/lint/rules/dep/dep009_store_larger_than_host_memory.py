"""The LMCache store does not fit into the host memory that is asked for.

## What it flags
A `kv_store` larger than what is left of the host's memory after the model's own need and 16 GB for everything else.

## Why it hurts
The store takes its memory at start, and the kernel kills it or a worker, mostly without a message.

## Example
    deploy: {min_ram_gb: 64}
    kv_store: {size_gib: 64, chunk: 1600}

## Use instead
    deploy: {min_ram_gb: 128}
    kv_store: {size_gib: 64, chunk: 1600}

## When to ignore
Never.

## Source
Sizes in the specs; LMCache allocates its first level whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.units import GIB

RULE = Rule(code="DEP009", name="store-larger-than-host-memory", severity=Severity.ERROR)

BESIDE_STORE_GB = 16
GB = 10**9


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the request, and one for a known host."""
    store = subject.plan.kv_store
    if store is None:
        return
    needed = math.ceil(((subject.specs.model.resources.ram or 0) + store.size_gib * GIB) / GB) + BESIDE_STORE_GB
    asked, known = subject.plan.storage.min_ram_gb, subject.specs.hardware.host.ram
    why = "the kernel kills the store or a worker"
    if subject.plan.target == "runpod" and (asked or 0) < needed:
        what = f"{asked or 'no'} GB of host memory are asked for, and {needed} GB are needed with the store"
        yield Hit(subject.place("profile", "deploy", "min_ram_gb"), what, why, f"ask for {needed}, or make kv_store.size_gib smaller")
    if known is not None and known < needed * GB:
        what = f"the host has {known / GB:.0f} GB of memory, and {needed} GB are needed with the store"
        yield Hit(subject.place("profile", "kv_store", "size_gib"), what, why, "make the store smaller")
