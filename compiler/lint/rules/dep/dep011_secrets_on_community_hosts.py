"""Secrets go to hosts that private persons run.

## What it flags
The community cloud together with secrets.

## Why it hurts
The owner of such a host can read the memory and disk of every container on it.

## Example
    deploy: {clouds: [SECURE, COMMUNITY]}

## Use instead
    deploy: {clouds: [SECURE]}

## When to ignore
With tokens that can only read public things, and prompts that anybody may see.

## Source
RunPod's description of its two clouds.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP011", name="secrets-on-community-hosts", severity=Severity.INFO)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when both are there."""
    names = [secret.env for secret in subject.plan.secrets]
    if subject.plan.target == "runpod" and "COMMUNITY" in subject.plan.deploy.clouds and names:
        what = f"{', '.join(names)} may go to a community host"
        yield Hit(
            subject.place("profile", "deploy", "clouds"),
            what,
            "its owner can read what the pod holds",
            "use clouds: [SECURE], or tokens with the least rights",
        )
