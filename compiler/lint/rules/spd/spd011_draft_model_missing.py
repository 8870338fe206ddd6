"""A method that needs a draft model has none.

## What it flags
DSpark, DFlash or EAGLE-3 without a draft repository.

## Why it hurts
The engine refuses a speculative configuration without its model.

## Example
    speculation: {method: dspark, tokens: 8}

## Use instead
    speculation: {method: dspark, tokens: 8, draft: {repo: RedHatAI/Qwen3.6-35B-A3B-speculator.dspark}}

## When to ignore
Never: the engine refuses.

## Source
0.27.1's speculative configuration.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD011", name="draft-model-missing", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when there is nothing to draft with."""
    method = speculation_method(subject)
    model = mapping(subject, "speculative_config").get("model")
    if method in ("dspark", "dflash", "eagle", "eagle3", "draft_model") and not subject.plan.engine.drafts and not model:
        yield Hit(
            speculation_place(subject),
            f"{method} speculation without a draft model",
            "the engine refuses the speculative configuration",
            "name the draft under speculation.draft.repo",
        )
