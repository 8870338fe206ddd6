"""A pod that installs at boot has no place to take its runtime from.

## What it flags
A profile with `container.prebaked: false` whose payload (runtime, installers, lock, manifest) is too large for the start
command, and that publishes nowhere.

## Why it hurts
The pod starts, finds nothing to install, and stays open with a fatal message while it is billed.

## Example
    container: {recipe: vllm-venv, prebaked: false}

## Use instead
    container: {recipe: vllm-venv, prebaked: false}
    publish: {repo: owner/pods}      # or prebaked: true with an image in a registry

## When to ignore
Never.

## Source
`docs/decisions/public-images-carry-their-payload.md`: RunPod refuses a request above 102,400 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP016", name="payload-without-source", severity=Severity.ERROR, stage="artifacts", refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the start command names the payload instead of carrying it, and no repository holds it."""
    payload = subject.artifacts.get("payload.tar.bz2")
    command = subject.artifacts.get("start-command.json")
    if payload is None or command is None or subject.plan.publish.repo is not None:
        return
    carried = len(command.content) > len(payload.content)  # base64 is a third larger than what it carries
    if not carried:
        yield Hit(
            subject.place("profile", "container"),
            f"the payload of {len(payload.content):,} bytes is too large for the start command, and nothing is published",
            "the pod cannot fetch its runtime from anywhere",
            "add `publish:` with a Hub repository, or set prebaked: true",
        )
