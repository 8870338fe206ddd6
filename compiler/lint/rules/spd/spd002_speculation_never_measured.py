"""This method of speculation has no verdict on this checkpoint.

## What it flags
Speculation with a method that the model spec does not judge, or judges `unmeasured`.

## Why it hurts
A figure from another model or another kind of work does not transfer: +367 % on code editing became -50 % on the next
model.

## Example
    model: swift-27b
    speculation: {method: ngram, tokens: 24}

## Use instead
    speculation: {method: off}      # or measure both on this model and workload, and write the verdict into the model spec

## When to ignore
While measuring it.

## Source
`qwen3-coder-edit-ngram` against `a40-ornith-ngram-adaptive-1`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import speculates, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD002", name="speculation-never-measured", severity=Severity.INFO, traps=("spec-transfer",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when nobody has judged the method."""
    method = speculation_method(subject)
    judged = [v for v in subject.specs.model.speculation if v.method in (method, "any") and v.verdict != "unmeasured"]
    if speculates(subject) and not judged:
        yield Hit(
            speculation_place(subject),
            f"{method} speculation on {subject.plan.model.slug} was never measured",
            "what wins on one model loses on the next, often by half",
            "measure it against off on this workload and write the verdict into the model spec",
        )
