"""The pod has more variables than the provider allows.

## What it flags
More than 50 variables and secrets together.

## Why it hurts
RunPod documents a limit of 50 for a pod.

## Example
    env: {A: "1", B: "2", ...}

## Use instead
Drop what equals the engine's default.

## When to ignore
Never.

## Source
RunPod's documentation on environment variables.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP012", name="too-many-variables", severity=Severity.ERROR, refusal=True)

LIMIT = 50


def check(subject: Subject) -> Iterator[Hit]:
    """A hit above the limit."""
    names = {v.name for v in subject.plan.pod_env} | {s.env for s in subject.plan.secrets}
    if subject.plan.target == "runpod" and len(names) > LIMIT:
        yield Hit(
            subject.place("profile", "secrets"),
            f"{len(names)} variables",
            f"RunPod allows {LIMIT}",
            "drop those that equal the engine's defaults",
        )
