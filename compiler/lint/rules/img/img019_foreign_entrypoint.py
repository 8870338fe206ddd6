"""An image with its own entrypoint is started without replacing it.

## What it flags
A Dockerfile on a public base that sets no `ENTRYPOINT`; a pod request that runs such a base as it is and overrides no
entrypoint.

## Why it hurts
A start command replaces CMD only: it becomes arguments of the base's entrypoint, here of `vllm serve`, which refuses
them in a loop.

## Example
    FROM vllm/vllm-openai:v0.27.1
    CMD ["/opt/podwright/bootstrap.sh"]

## Use instead
ENTRYPOINT [] CMD ["/opt/podwright/bootstrap.sh"]

## When to ignore
Never.

## Source
RunPod contract, command semantics.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Place, Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG019", name="foreign-entrypoint", severity=Severity.ERROR, stage="artifacts")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the Dockerfile or the request, whichever starts the base."""
    image, lines = subject.plan.image, list(instructions(subject))
    if not image.public_entrypoint:
        return
    why = "the start command becomes arguments of the base's entrypoint, which refuses them"
    if image.prebaked and lines and not any(word == "ENTRYPOINT" for _, word, _ in lines):
        yield Hit(Place("Dockerfile"), "the base's ENTRYPOINT is kept", why, "set ENTRYPOINT []")
    if not image.prebaked and not subject.plan.deploy.entrypoint:
        yield Hit(
            subject.place("profile", "container"),
            f"{image.name} is run with its own entrypoint",
            why,
            "override the entrypoint in the pod request",
        )
