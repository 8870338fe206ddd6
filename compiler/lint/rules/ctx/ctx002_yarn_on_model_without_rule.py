"""YaRN is asked for on a model whose spec has no rule for it.

## What it flags
`yarn_factor` in the profile, or (a warning) a rope override in `hf_overrides`, with a model spec that has no `context.yarn`.

## Why it hurts
Where the rope parameters stand is a fact of the checkpoint; written elsewhere they are swallowed or replace
parameters that the model needs. Models of native million-token windows are hurt for nothing.

## Example
    model: nemotron              # native 1,048,576
    yarn_factor: 2

## Use instead
    model: nemotron
    settings: {max_model_len: 1048576}

## When to ignore
When the model was proven with it: then write the `yarn` section of its spec.

## Source
The Nemotron block of the bootstrap; `engine-yarn-top-level` for swallowed overrides.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping, option_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX002", name="yarn-on-model-without-rule", severity=Severity.ERROR, traps=("nemotron-no-yarn",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the spec knows no way to stretch the model."""
    if subject.specs.model.context.yarn is not None:
        return
    asked = subject.specs.profile.yarn_factor is not None
    overrides = "rope" in str(sorted(mapping(subject, "hf_overrides").items(), key=str))
    if asked or overrides:
        yield Hit(
            subject.place("profile", "yarn_factor") if asked else option_place(subject, "hf_overrides"),
            f"rope scaling is asked for, but the spec of {subject.plan.model.slug} has no YaRN rule",
            f"its native context is {subject.plan.model.native_context:,} tokens, and a wrong rope spoils every answer silently",
            "remove it, or describe the model's YaRN under context.yarn with its evidence",
            severity=None if asked else Severity.WARNING,
        )
