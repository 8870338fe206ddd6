"""Some GPUs are paid for and do nothing.

## What it flags
Tensor, pipeline and data parallel sizes whose product is below the number of GPUs.

## Why it hurts
A pair left at one GPU wastes half of its price, and nothing warns.

## Example
    settings: {tensor_parallel_size: 1}          # on two GPUs

## Use instead
    settings: {tensor_parallel_size: 2}

## When to ignore
On an own machine, where the other GPU has another job.

## Source
Deployment notes: a two-GPU pod at TP=1.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import gpus_used
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="HWR004", name="idle-gpus", severity=Severity.WARNING, traps=("tp1-silent-waste",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when GPUs are left over."""
    used, count = gpus_used(subject), subject.plan.hardware.count
    if used < count:
        what = f"{used} of {count} GPUs are used"
        is_rented = subject.plan.hardware.host == "rented"
        why = "the others are paid for by the hour and idle" if is_rented else "the others idle"
        fix = "leave the parallel sizes unset, or choose hardware with fewer GPUs"
        yield Hit(option_place(subject, "tensor_parallel_size"), what, why, fix)
