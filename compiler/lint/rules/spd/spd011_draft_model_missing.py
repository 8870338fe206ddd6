"""A method that needs a draft model has none.

## What it flags
DFlash, EAGLE, EAGLE-3 or a draft model without a draft repository (errors); DSpark without one (a warning).

## Why it hurts
The engine refuses: `num_speculative_tokens was provided but without speculative model`. For DSpark it takes the model itself as the
draft, which only checkpoints that ship one can be, and the load fails for want of its tensors.

## Example
    speculation: {method: dflash, tokens: 7}

## Use instead
    speculation: {method: dspark, tokens: 8, draft: {repo: RedHatAI/Qwen3.6-35B-A3B-speculator.dspark}}

## When to ignore
The warning, with a checkpoint that carries its DSpark draft.

## Source
The speculative configuration of 0.26 to 0.33; 0.27.1 asked with DSpark and EAGLE-3 without a draft.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping, speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD011", name="draft-model-missing", severity=Severity.ERROR, refusal=True)


METHODS = ("dspark", "dflash", "eagle", "eagle3", "draft_model")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when there is nothing to draft with."""
    method = speculation_method(subject)
    model = mapping(subject, "speculative_config").get("model")
    if method not in METHODS or subject.plan.engine.drafts or model:
        return
    itself = method == "dspark"
    yield Hit(
        speculation_place(subject),
        f"{method} speculation without a draft model",
        "the engine takes the model itself as the draft, and most checkpoints ship none" if itself else "the engine refuses the speculative configuration",
        "name the draft under speculation.draft.repo",
        Severity.WARNING if itself else None,
    )
