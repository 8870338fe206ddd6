"""Experts are to be spread over a single GPU.

## What it flags
`enable_expert_parallel` with one GPU in each replica and one replica.

## Why it hurts
It has no effect, and reads as if it had.

## Example
    settings: {enable_expert_parallel: true}          # on one GPU

## Use instead
Leave it out.

## When to ignore
Never.

## Source
Bootstrap code: emitted only above one GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import gpus_used
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="HWR014", name="expert-parallel-on-one-gpu", severity=Severity.INFO, traps=("ep-needs-tp",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when there is nothing to spread over."""
    if subject.setting("enable_expert_parallel") and gpus_used(subject) == 1:
        what = "experts cannot be spread over one GPU"
        yield Hit(option_place(subject, "enable_expert_parallel"), what, "the setting changes nothing", "remove it")
