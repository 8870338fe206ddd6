"""The image carries weights.

## What it flags
A Dockerfile that downloads or copies a checkpoint.

## Why it hurts
An image is pulled at about 46 MB/s, the Hub gives 200 to 390 MB/s; and a new checkpoint then needs a new image.

## Example
    RUN hf download owner/model

## Use instead
Let the pod fetch them at boot, with HF_XET_HIGH_PERFORMANCE=1.

## When to ignore
Behind a registry in the same data center that was measured to be faster.

## Source
Deployment notes: pull rate against Hub rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG018", name="weights-in-image", severity=Severity.WARNING, stage="artifacts", traps=("weights-in-image",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each line that brings weights."""
    for place, word, rest in instructions(subject):
        if word in ("RUN", "COPY", "ADD") and re.search(
            r"\b(hf|huggingface-cli) download\b|snapshot_download|\.safetensors\b|\.gguf\b", rest
        ):
            yield Hit(
                place,
                "weights are baked into the image",
                "registries deliver them several times slower than the Hub",
                "let the pod fetch them at boot",
            )
