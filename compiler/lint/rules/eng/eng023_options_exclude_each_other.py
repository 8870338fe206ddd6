"""Engine options exclude each other.

## What it flags
Pairs that the engine's configuration refuses, whatever the model and the card: load balancing of experts without expert parallelism,
redundant experts without balancing, more adapters in use than are kept, a KV connector without a role, graph sizes that contradict
their maximum, logged answers without logged requests, microbatches without an all-to-all that has them, and the like.

## Why it hurts
The engine raises before it loads anything, and each start of a container then ends after half a minute.

## Example
    engine_args: {enable_lora: true, max_loras: 4, max_cpu_loras: 2}

## Use instead
    engine_args: {enable_lora: true, max_loras: 4, max_cpu_loras: 8}

## When to ignore
Never: the engine refuses.

## Source
The configuration classes and the server's own checks in 0.26.0, 0.27.1 and 0.33.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.contradictions import CONTRADICTIONS
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import option_place

RULE = Rule(code="ENG023", name="options-exclude-each-other", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each contradiction."""
    for pair in CONTRADICTIONS:
        what = pair.check(subject)
        if what is not None:
            why = "the engine's configuration refuses it before anything is loaded"
            yield Hit(option_place(subject, pair.option), what, why, pair.fix, weight(subject))
