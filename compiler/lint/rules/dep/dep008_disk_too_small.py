"""The container disk cannot hold what the pod downloads.

## What it flags
A `container_disk_gb` below weights, drafts, caches and logs together.

## Why it hurts
The download stops with `No space left on device`, after the hour has begun.

## Example
    deploy: {container_disk_gb: 20}

## Use instead
Leave it out: podwright computes it.

## When to ignore
Never without a network volume.

## Source
Sizes in the model spec.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP008", name="disk-too-small", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the disk is too small and no volume takes the weights."""
    storage = subject.plan.storage
    if storage.network_volume_id is None and storage.container_disk_gb < storage.needed_disk_gb:
        what = f"{storage.container_disk_gb} GB of disk, and {storage.needed_disk_gb:g} GB are needed"
        fix = f"set it to {math.ceil(storage.needed_disk_gb / 10) * 10}, or leave it out"
        yield Hit(subject.place("profile", "deploy", "container_disk_gb"), what, "the download runs out of space", fix)
