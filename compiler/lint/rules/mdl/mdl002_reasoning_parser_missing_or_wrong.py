"""A reasoning model runs without its reasoning parser, or with another family's.

## What it flags
A model that thinks and no `reasoning_parser`, one that differs from the model spec's, or one of another family than
the model's (a warning: families alone prove nothing). In a plain command all are warnings: the engine serves.

## Why it hurts
The thoughts arrive as answer text: clients show them, agents act on them, and thinking budgets cannot be set. A
parser of another family stops with `could not locate tokens`, or leaks.

## Example
    model: nemotron-nvfp4
    settings: {reasoning_parser: qwen3}

## Use instead
    model: nemotron-nvfp4        # its spec sets nemotron_v3

## When to ignore
When thinking is switched off in the chat template for every request.

## Source
vllm-project/recipes#515; Nemotron with qwen3, August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.parsers import REASONING, family, is_foreign, of_family
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(
    code="MDL002", name="reasoning-parser-missing-or-wrong", severity=Severity.ERROR, served=True,
    traps=("reasoning-parser-missing", "nemotron-parser", "reasoning-parser-wrong-model"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the parser is missing or another."""
    chosen, wanted = subject.setting("reasoning_parser") or None, subject.specs.model.parsers.reasoning
    suits = wanted or " or ".join(of_family(subject, REASONING, "reasoning_parsers")) or "the one of its family"
    place, fix = option_place(subject, "reasoning_parser"), f"set reasoning_parser to {suits}"
    if chosen is None and subject.plan.model.reasoning:
        what = f"{subject.plan.model.slug} thinks before it answers, and no reasoning parser is set"
        yield Hit(place, what, "its thoughts arrive as answer text", fix)
    elif chosen is not None and wanted is not None and chosen != wanted:
        what = f"reasoning_parser {chosen} on {subject.plan.model.slug}, whose parser is {wanted}"
        yield Hit(place, what, "thoughts leak into the answer, or the engine cannot find the markers", fix)
    elif chosen is not None and is_foreign(subject, REASONING, str(chosen)):
        what = f"reasoning_parser {chosen} on {subject.plan.model.slug}, and it belongs to other families than {family(subject)}"
        known = of_family(subject, REASONING, "reasoning_parsers")
        fix = f"set reasoning_parser to {' or '.join(known)}" if known else "remove reasoning_parser"
        yield Hit(place, what, "thoughts leak into the answer, or the engine cannot find the markers", fix, Severity.WARNING)
