"""The base image is named by its tag only.

## What it flags
A base image without a digest, in the engine spec and in the profile's lock.

## Why it hurts
A tag can be moved to other bytes between two builds, and nightly tags are deleted. The same specs then give another
pod.

## Example
    images: [{image: "vllm/vllm-openai:v0.27.1", ...}]

## Use instead
Run `podwright lock PROFILE` where the registry can be reached.

## When to ignore
Offline, or while trying a new release.

## Source
Self-hosting logbook: an image that could not be built again.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG001", name="base-image-without-digest", severity=Severity.WARNING, traps=("image-purged",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no digest is known."""
    image = subject.plan.image
    if image.base_digest is None:
        index = next((i for i, base in enumerate(subject.specs.engine.images) if base.image == image.base), 0)
        what = f"{image.base} has no digest"
        yield Hit(
            subject.place("engine", "images", index, "image"),
            what,
            "its tag can be moved, and the next build is another image",
            f"run `podwright lock {subject.plan.profile}`",
        )
