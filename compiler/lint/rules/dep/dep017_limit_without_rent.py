"""A limit of the rent on a target where nobody rents.

## What it flags
`deploy.max_hours` or `deploy.idle_stop_minutes` with a `target` other than `runpod`.

## Why it hurts
The pod asks its provider for the stop. An own machine has none, so the limit is only written into the journal, and the engine goes on.

## Example
    target: docker
    deploy: {max_hours: 8}

## Use instead
    target: docker

## When to ignore
When the same profile is deployed to RunPod through another profile that extends it.

## Source
The runtime's own end of spend: it knows RunPod alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP017", name="limit-without-rent", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each limit that nobody can keep."""
    if subject.plan.target == "runpod":
        return
    for key, value in (("max_hours", subject.plan.deploy.max_hours), ("idle_stop_minutes", subject.plan.deploy.idle_stop_minutes)):
        if value is not None:
            what, why = f"deploy.{key} is set, and nobody rents out this machine", "the pod asks a provider for the stop, and here is none; the engine goes on"
            yield Hit(subject.place("profile", "deploy", key), what, why, f"remove deploy.{key}")
