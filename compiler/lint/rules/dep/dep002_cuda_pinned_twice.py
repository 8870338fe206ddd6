"""Exact CUDA versions and a floor are asked for together.

## What it flags
`deploy.cuda.versions` and `deploy.cuda.minimum` both set.

## Why it hurts
RunPod answers 400 to such a request.

## Example
    deploy: {cuda: {versions: ["13.0"], minimum: "13.0"}}

## Use instead
    deploy: {cuda: {minimum: "13.0"}}

## When to ignore
Never.

## Source
RunPod's REST v2 document.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP002", name="cuda-pinned-twice", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when both are set."""
    cuda = subject.specs.profile.deploy.cuda
    if subject.plan.target == "runpod" and cuda.versions and cuda.minimum:
        yield Hit(
            subject.place("profile", "deploy", "cuda", "minimum"),
            "CUDA is pinned exactly and by a floor",
            "RunPod refuses both together",
            "keep one; the floor finds more hosts",
        )
