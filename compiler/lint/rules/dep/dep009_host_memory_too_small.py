"""The host has less memory than the pod needs.

## What it flags
A `min_ram_gb` below what the model asks for, or below an LMCache store and 16 GB for everything else; a host of one's
own with less.

## Why it hurts
The kernel kills a worker while weights or an offloaded table are read, mostly without a message.

## Example
    deploy: {min_ram_gb: 64}          # for a model that needs 110 GB

## Use instead
    deploy: {min_ram_gb: 111}

## When to ignore
Never.

## Source
Flash-Next's offload needs more than 110 GB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.units import GIB

RULE = Rule(code="DEP009", name="host-memory-too-small", severity=Severity.ERROR, traps=("ple-offload-required",))

BESIDE_STORE_GB = 16
GB = 10**9


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the request, and one for a known host."""
    store = subject.plan.kv_store
    model = subject.specs.model.resources.ram or 0
    needed = max(math.ceil(model / GB), math.ceil(store.size_gib * GIB / GB) + BESIDE_STORE_GB if store else 0)
    asked, known = subject.specs.profile.deploy.min_ram_gb, subject.specs.hardware.host.ram
    why = "the kernel kills a worker while weights or caches are read"
    if asked is not None and asked < needed:
        what = f"{asked} GB of host memory are asked for, and {needed} GB are needed"
        yield Hit(subject.place("profile", "deploy", "min_ram_gb"), what, why, f"ask for {needed}")
    if known is not None and known < needed * GB:
        what = f"the host has {known / GB:.0f} GB of memory, and {needed} GB are needed"
        yield Hit(subject.place("hardware", "host", "ram"), what, why, "choose another host")
