"""The checkpoint's own tokenizer cannot be loaded by this engine.

## What it flags
A Kimi-Linear checkpoint without a replacement tokenizer, on an engine with transformers 5.5.3 or later.

## Why it hurts
Its `tokenization_kimi.py` imports a function that transformers 5.5.3 removed, and there is no fast tokenizer file:
the start ends in an ImportError. Every engine from 0.24 on needs such a transformers.

## Example
    model: kimi-linear           # without its tokenizer section

## Use instead
    tokenizer: {repo: patdev/kimi-linear-tokenizer-fix, reason: the checkpoint's own imports a removed function}

## When to ignore
When the checkpoint's publisher has repaired it; then say so in the model spec.

## Source
Bootstrap; the replacement was compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import version
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL005", name="tokenizer-not-replaced", severity=Severity.ERROR, traps=("kimi-tokenizer",), refusal=True)


REMOVED_IN = (5, 5, 3)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the import will fail."""
    architecture = subject.specs.model.architecture
    broken = architecture.model_type == "kimi_linear" and version(subject.specs.engine.transformers) >= REMOVED_IN
    if broken and subject.plan.model.tokenizer is None and not subject.setting("tokenizer"):
        yield Hit(
            subject.place("profile", "model"),
            f"{subject.plan.model.slug} uses its own tokenizer code with transformers {subject.specs.engine.transformers}",
            "the code imports bytes_to_unicode, which is gone since 5.5.3, and the start fails",
            "add the tokenizer section to the model spec",
        )
