"""A release that is installed has no constraints lock.

## What it flags
A recipe that installs the engine, and an engine spec without `lock`.

## Why it hurts
Only the engine is pinned then. Its hundred dependencies move with every build; transformers alone broke a tokenizer, a
YaRN override and a model class within weeks.

## Example
    lock: null

## Use instead
    lock: locks/vllm-0.27.1.txt

## When to ignore
While a new release is tried for the first time.

## Source
Contradictions between transformers 5.9 and 5.24, seen on 0.27.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG004", name="release-without-lock", severity=Severity.WARNING, traps=("transformers-too-old-image",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the engine is installed without a lock."""
    if subject.plan.image.recipe != "vllm-openai" and subject.plan.image.lock_file is None:
        what = f"{subject.plan.engine.distribution} {subject.plan.engine.release} is installed without a lock of its dependencies"
        yield Hit(
            subject.place("engine", "lock"),
            what,
            "the next build takes other versions, and the same specs give another pod",
            "write one with images/engine/lock_release.py",
        )
