"""The host may have less memory than the model needs beside the GPU.

## What it flags
`deploy.min_ram_gb` below what the model spec asks for, or a hardware spec whose host has less.

## Why it hurts
Offloaded tables and pinned copies live there. The kernel kills the engine while it loads, or the pod is placed on a
host that cannot hold it.

## Example
    model: flash-next            # 110 GB
    deploy: {min_ram_gb: 64}

## Use instead
Leave `deploy.min_ram_gb` unset: the plan asks for what the model needs.

## When to ignore
When the model was measured to need less; then correct its spec.

## Source
Flash-Next: 51 GB of table and its workers.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL013", name="host-memory-too-small", severity=Severity.ERROR, traps=("ple-offload-required",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when request or host is too small."""
    need, have = subject.specs.model.resources.ram, subject.specs.hardware.host.ram
    if need is None:
        return
    asked = subject.specs.profile.deploy.min_ram_gb
    if asked is not None and asked * 1_000_000_000 < need:
        what = f"{asked} GB of host memory are asked for, the model needs {need / 1e9:.0f}"
        place = subject.place("profile", "deploy", "min_ram_gb")
        yield Hit(place, what, "the engine is killed while it loads", "remove min_ram_gb", edit=Edit("remove", place))
    if have is not None and have < need:
        what = f"the host has {have / 1e9:.0f} GB of memory, the model needs {need / 1e9:.0f}"
        yield Hit(subject.place("hardware", "host", "ram"), what, "the engine is killed while it loads", "choose a larger host")
