"""An image is named by a tag that moves.

## What it flags
`latest`, `nightly`, `main`, `master`, `dev`, `edge`, `stable` or `preview` in the tag of the base or of the image that
the pod runs.

## Why it hurts
Hosts cache tags, so two pods of one profile may run different bytes; and nightly images are deleted, after which
nothing can be rebuilt.

## Example
    container: {name: "me/pod:latest"}

## Use instead
    container: {name: "me/pod:2026-08-27"}

## When to ignore
Never: versioned tags cost nothing.

## Source
RunPod's notes on tags that hosts cache; self-hosting logbook on purged nightlies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Place, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG002", name="moving-tag", severity=Severity.WARNING, traps=("image-purged", "dflash2-nightly"))

MOVING = re.compile(r"(^|[-_.])(latest|nightly|main|master|dev|edge|stable|preview)($|[-_.])", re.IGNORECASE)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each image with such a tag."""
    image = subject.plan.image
    for index, base in enumerate(subject.specs.engine.images):
        if base.image == image.base and MOVING.search(base.image.rpartition(":")[2]):
            yield _hit(subject.place("engine", "images", index, "image"), base.image)
    if image.name != image.base and MOVING.search(image.name.rpartition(":")[2]):
        yield _hit(subject.place("profile", "container", "name"), image.name)


def _hit(place: Place, image: str) -> Hit:
    return Hit(
        place,
        f"the tag of {image} moves",
        "hosts keep the bytes that they pulled first, and old ones are deleted",
        "use a tag with a version or a date",
    )
