"""An exact CUDA pin leaves newer hosts out.

## What it flags
`deploy.cuda.versions` chosen by the profile.

## Why it hurts
The match is exact: a host that reports 13.1 runs CUDA 13.0 programs and is not offered. Capacity shrinks, and the
refusal reads like a lack of stock.

## Example
    deploy: {cuda: {versions: ["13.0"]}}

## Use instead
    deploy: {cuda: {minimum: "13.0"}}

## When to ignore
Where a newer CUDA was seen to fail.

## Source
RunPod contract, placement.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import version
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP004", name="exact-pin-excludes-newer-hosts", severity=Severity.INFO)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for versions that the profile itself lists."""
    deploy = subject.specs.profile.deploy
    if "cuda" in deploy.model_fields_set and subject.plan.deploy.cuda_versions and deploy.cuda.minimum is None:
        lowest = max(min(deploy.cuda.versions, key=version), subject.plan.engine.cuda or "0", key=version)
        what = f"only hosts that report CUDA {' or '.join(deploy.cuda.versions)} are asked for"
        yield Hit(
            subject.place("profile", "deploy", "cuda", "versions"),
            what,
            "newer hosts would do and are left out",
            f'use minimum: "{lowest}"',
        )
