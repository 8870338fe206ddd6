"""The image that the pod runs has no name that a registry knows.

## What it flags
A prebaked pod at RunPod without `container.name`.

## Why it hurts
The default name says what was built and belongs to nobody's registry: RunPod cannot pull it, and the pod waits in a
pull error, paid for.

## Example
    container: {recipe: vllm-venv}

## Use instead
    container: {recipe: vllm-venv, name: "registry.example.com/me/pod:2026-08-27"}

## When to ignore
While the bundle is only built and looked at.

## Source
RunPod contract, image pull.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG009", name="image-without-registry", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when a prebaked image keeps its default name."""
    container = subject.specs.profile.container
    if subject.plan.target == "runpod" and container.prebaked and container.name is None:
        what = f"{subject.plan.image.name} is a local name"
        fix = "push the image to a registry and set container.name, or set prebaked: false"
        yield Hit(subject.place("profile", "container"), what, "RunPod cannot pull it", fix, on_key=True)
