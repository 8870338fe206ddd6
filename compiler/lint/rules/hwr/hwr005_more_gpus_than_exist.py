"""The parallel sizes ask for more GPUs than there are.

## What it flags
A product of tensor, pipeline and data parallel sizes above the number of GPUs.

## Why it hurts
The engine refuses, or waits for workers that never come.

## Example
    settings: {tensor_parallel_size: 4}          # on two GPUs

## Use instead
    settings: {tensor_parallel_size: 2}

## When to ignore
Never.

## Source
The engine's own check of its world size.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import gpus_used
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="HWR005", name="more-gpus-than-exist", severity=Severity.ERROR, traps=("dp-forces-tp1",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when GPUs are missing."""
    used, count = gpus_used(subject), subject.plan.hardware.count
    if used > count:
        name = "data_parallel_size" if subject.plan.engine.data_parallel > 1 else "tensor_parallel_size"
        what = f"the parallel sizes need {used} GPUs, and {subject.plan.hardware.slug} has {count}"
        yield Hit(
            option_place(subject, name),
            what,
            "the engine does not start",
            f"their product must be {count}; leave tensor_parallel_size unset",
        )
