"""FlashInfer's pieces come in different versions.

## What it flags
`flashinfer-python`, `flashinfer-cubin` and `flashinfer-jit-cache` with different versions, among the extras that the
image installs and the release's lock.

## Why it hurts
FlashInfer compares them when it is imported and stops the engine: `flashinfer-cubin version does not match`.

## Example
    extras:
      cubin: {requirement: flashinfer-cubin==0.6.14, why: no download at start}      # the lock has 0.6.16

## Use instead
    extras:
      cubin: {requirement: flashinfer-cubin==0.6.16, why: no download at start}

## When to ignore
Never: the engine stops, unless FLASHINFER_DISABLE_VERSION_CHECK is set, and then wrong kernels may be loaded.

## Source
FlashInfer's own check at import; the locks of the shipped releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG020", name="flashinfer-of-two-versions", severity=Severity.ERROR)

PINNED = re.compile(r"^(flashinfer-(?:python|cubin|jit-cache))(?:\[[^\]]*\])?==([^\s;+\\]+)", re.MULTILINE)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the pieces that will be installed differ. An extra replaces the lock's version of the same distribution."""
    lock = (subject.specs.engine_lock or b"").decode("utf-8", "replace")
    extras = [found for package in subject.plan.image.packages for found in PINNED.findall(package.requirement)]
    versions = {**dict(PINNED.findall(lock)), **dict(extras)}
    if extras and len(set(versions.values())) > 1:
        what = "FlashInfer in pieces of different versions: " + ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
        fix = "give all of them one version, the lock's"
        yield Hit(subject.place("profile", "container", "extras"), what, "its import compares them and stops the engine", fix)
