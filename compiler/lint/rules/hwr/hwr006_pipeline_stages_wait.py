"""Layers are split into pipeline stages.

## What it flags
`pipeline_parallel_size` above 1.

## Why it hurts
With one stream only one stage works at a time: three stages gave 5 to 6 tokens a second and wasted two thirds of the
GPU time.

## Example
    settings: {pipeline_parallel_size: 3}

## Use instead
    settings: {tensor_parallel_size: 2}

## When to ignore
For throughput with many requests on hosts whose links are too slow for tensor parallel.

## Source
Self-hosting logbook, three RTX 4090.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="HWR006", name="pipeline-stages-wait", severity=Severity.WARNING, traps=("pipeline-bubbles",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for more than one stage."""
    stages = subject.setting("pipeline_parallel_size")
    if isinstance(stages, int) and stages > 1:
        what = f"{stages} pipeline stages"
        why = "a single stream keeps one stage busy and the others waiting"
        yield Hit(option_place(subject, "pipeline_parallel_size"), what, why, "use tensor parallel, or one larger card")
