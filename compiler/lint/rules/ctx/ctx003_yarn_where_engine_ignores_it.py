"""Rope parameters stand where the engine does not read them for this model.

## What it flags
`hf_overrides` with rope parameters at the top level for a model that keeps them in `text_config`, or the other way
round.

## Why it hurts
With a multimodal Qwen3.5-type config a top-level override is accepted, the window becomes a million tokens, and the
resolved rope stays `default` (or, with transformers 5.24, the engine fails). Long answers are then nonsense, with
every probe green.

## Example
    engine_args:
      hf_overrides: {rope_scaling: {rope_type: yarn, factor: 4.0, original_max_position_embeddings: 262144}}

## Use instead
    yarn_factor: 4      # the compiler writes it where the model spec says

## When to ignore
Never; if the checkpoint keeps them elsewhere, correct `context.yarn.location`.

## Source
`engine-yarn-top-level`, `engine-yarn-top-level-transformers-5-24`, `engine-yarn-text-config`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping, option_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX003", name="yarn-where-engine-ignores-it", severity=Severity.ERROR, traps=("allow-long-alone",))


TOP_LEVEL = ("rope_scaling", "rope_parameters")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when override and checkpoint disagree about the place."""
    overrides = mapping(subject, "hf_overrides")
    yarn = subject.specs.model.context.yarn
    inner = overrides.get("text_config")
    in_text = isinstance(inner, dict) and any(key in inner for key in TOP_LEVEL)
    at_top = any(key in overrides for key in TOP_LEVEL)
    nested = yarn.location == "text-config" if yarn else subject.plan.model.multimodal
    if (at_top and nested) or (in_text and not nested):
        right = "text_config.rope_parameters" if nested else "the top of config.json"
        yield Hit(
            option_place(subject, "hf_overrides"),
            f"rope parameters are overridden {'at the top' if at_top else 'in text_config'}, but this checkpoint keeps them in {right}",
            "the engine accepts the override and does not apply it: the window grows, the rope does not",
            "drop the override and set yarn_factor, which is written to the right place",
        )
