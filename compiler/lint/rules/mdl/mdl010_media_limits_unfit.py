"""The limits for images and videos do not fit the model or its clients.

## What it flags
Videos allowed; no image allowed on a model that sees while clients send images; limits set for a text model (an
information).

## Why it hurts
One video blows the activation budget up. Without images every screenshot of an agent is answered 400: `At most 0
image(s) may be provided`.

## Example
    images: {per_request: 0}

## Use instead
    images: {per_request: 4, videos_per_request: 0}

## When to ignore
When clients are known to send none: then set `workload.uses_images: false`, and the rule is silent.

## Source
Flash-Next, 27 August 2026; 400s of an agent that sent screenshots.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MDL010", name="media-limits-unfit", severity=Severity.WARNING,
    traps=("image-400", "video-stays-0", "mm-limit-model-specific"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each limit that does not fit."""
    limits, workload = mapping(subject, "limit_mm_per_prompt"), subject.specs.profile.workload
    place = subject.place("profile", "images") if subject.specs.profile.images else subject.setting_place("limit_mm_per_prompt")
    if (limits or subject.specs.profile.images) and not subject.plan.model.multimodal:
        what = f"{subject.plan.model.slug} takes text only, and media limits are set"
        yield Hit(place, what, "they mean nothing here", "remove them", severity=Severity.INFO)
        return
    videos, images = limits.get("video", 0), limits.get("image")
    if videos:
        yield Hit(place, f"videos may be sent: {videos} in a request", "a video blows the activation budget up", "allow 0 videos")
    closed = images == 0 or subject.setting("language_model_only") is True
    if closed and subject.plan.model.multimodal and (workload is None or workload.uses_images):
        what = f"{subject.plan.model.slug} sees, but no image may be sent"
        yield Hit(place, what, "every request with a screenshot is answered 400", "allow images, or set workload.uses_images to false")
