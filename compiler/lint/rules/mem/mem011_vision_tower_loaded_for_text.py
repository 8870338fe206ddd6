"""A vision tower is loaded and profiled although no client sends images.

## What it flags
A multimodal model with images allowed, in a profile whose workload says `uses_images: false`.

## Why it hurts
The tower's weights and its profiling batch are charged to the cache: without them one card held 135,926 instead of
91,022 tokens.

## Example
    workload: {sessions: 4, uses_images: false}

## Use instead
    workload: {sessions: 4, uses_images: false}
    settings:
      language_model_only: {value: true, reason: only text is sent}

## When to ignore
When images are to be allowed later without a restart.

## Source
vllm-project/recipes#810.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM011", name="vision-tower-loaded-for-text", severity=Severity.WARNING, traps=("mm-encoder-memory",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when images are possible, unwanted, and not switched off."""
    workload = subject.specs.profile.workload
    limits = mapping(subject, "limit_mm_per_prompt")
    allowed = any(limits.values()) if limits else True
    if not subject.plan.model.multimodal or workload is None or workload.uses_images or subject.setting("language_model_only"):
        return
    if allowed:
        yield Hit(
            subject.place("profile", "workload", "uses_images"),
            "no client sends images, but the vision tower is loaded",
            "its weights and its profiling batch are taken from the KV cache",
            "set language_model_only to true, or allow 0 images",
        )
