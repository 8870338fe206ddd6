"""Not all GPUs of the hardware are used.

## What it flags
Tensor times pipeline times data parallel sizes below the number of GPUs, or above it (an error). As an information,
pipeline stages for interactive work.

## Why it hurts
The engine says nothing about idle GPUs, and all are billed. More ranks than GPUs are refused. Three pipeline stages
gave one session 5 to 6 tokens a second.

## Example
    hardware: 2xa40
    settings: {tensor_parallel_size: 1}

## Use instead
Leave `tensor_parallel_size` unset: it is the number of GPUs.

## When to ignore
When the others serve something else.

## Source
Bootstrap: tensor parallel defaults to all GPUs since an idle card went unseen; `l-qwen3-coder-next`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import number, on_gpu
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL014", name="gpu-left-idle", severity=Severity.WARNING, traps=("tp1-silent-waste", "pipeline-bubbles"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when ranks and GPUs differ."""
    engine, count = subject.plan.engine, subject.plan.hardware.count
    stages = int(number(subject, "pipeline_parallel_size") or 1)
    ranks = engine.tensor_parallel * engine.data_parallel * stages
    place = subject.setting_place("tensor_parallel_size")
    if ranks > count:
        what = f"{ranks} ranks on {count} GPU{'s' if count > 1 else ''}"
        yield Hit(place, what, "the engine refuses", "lower the parallel sizes", severity=Severity.ERROR)
    elif ranks < count and on_gpu(subject):
        yield Hit(place, f"{ranks} of {count} GPUs are used", "the others are billed and idle", "leave tensor_parallel_size unset")
    if stages > 1:
        what, why = f"{stages} pipeline stages", "one session waits for every stage in turn: 5 to 6 tokens a second over three"
        yield Hit(subject.setting_place("pipeline_parallel_size"), what, why, "use tensor parallel", severity=Severity.INFO)
