"""A script that changes the engine has no checksum.

## What it flags
An `engine_patches` entry without `sha256`.

## Why it hurts
The script runs with all rights. Without a checksum whoever can write to its repository owns the pod, so the bootstrap
does not run it, and the model does not load.

## Example
    engine_patches: [{file: patch_ple.py, repo: me/patches, reason: ...}]

## Use instead
Read the script, then add the sha256 of what you read.

## When to ignore
Never: the pod refuses it.

## Source
`pod.patches.script`, in the runtime.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="PIN003", name="patch-without-checksum", severity=Severity.WARNING, traps=("ple-patch",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each unverified script."""
    for index, patch in enumerate(subject.specs.model.engine_patches):
        if patch.sha256 is None:
            what = f"{patch.file} has no sha256"
            why = "the bootstrap does not run it, and without it the model does not load"
            yield Hit(subject.place("model", "engine_patches", index), what, why, "read the script, then add its sha256")
