"""A replacement tokenizer can change between two starts.

## What it flags
A `tokenizer` of the model without a commit.

## Why it hurts
A tokenizer that changes alone gives other tokens to the same weights: noise, without an error.

## Example
    tokenizer: {repo: owner/fix, reason: ...}

## Use instead
Run `podwright lock PROFILE`, or set its revision.

## When to ignore
Offline.

## Source
The Kimi tokenizer fix.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="PIN002", name="tokenizer-not-pinned", severity=Severity.WARNING, traps=("kimi-tokenizer",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit without a commit."""
    tokenizer = subject.plan.model.tokenizer
    if tokenizer is not None and tokenizer.revision is None:
        what = f"the tokenizer {tokenizer.repo} is not pinned to a commit"
        yield Hit(
            subject.place("model", "tokenizer"),
            what,
            "another tokenizer gives the weights other tokens",
            f"run `podwright lock {subject.plan.profile}`",
        )
