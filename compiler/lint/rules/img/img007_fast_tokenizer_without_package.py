"""The fast tokenizer is switched on, and its package is not installed.

## What it flags
`VLLM_USE_FASTOKENS=1` on an image whose lock and extras do not bring `fastokens`.

## Why it hurts
The engine refuses: `fastokens package (>= 0.2.0) is required`. The bootstrap notices and switches it off, so its 12 %
are lost.

## Example
    env: {VLLM_USE_FASTOKENS: "1"}

## Use instead
    container: {extras: [fastokens]}
    env: {VLLM_USE_FASTOKENS: "1"}

## When to ignore
Where the base image brings it.

## Source
Bootstrap notes, image v2 against v3.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="IMG007", name="fast-tokenizer-without-package", severity=Severity.WARNING,
    traps=("fastokens-missing", "humming-nesting"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when neither extras nor a locked install bring the package."""
    image = subject.plan.image
    installed = any(p.requirement.startswith("fastokens") for p in image.packages) or (
        image.recipe != "vllm-openai" and image.lock_file is not None
    )
    if environment(subject, "VLLM_USE_FASTOKENS") == "1" and not installed:
        place = environment_place(subject, "VLLM_USE_FASTOKENS")
        yield Hit(
            place,
            "VLLM_USE_FASTOKENS=1 without the package fastokens",
            "the engine refuses it, and the bootstrap switches it off again",
            "add fastokens to container.extras",
        )
