"""The window is longer than the model was trained for, and no rope scaling is applied.

## What it flags
`max_model_len` above the model's native context without a YaRN factor in the plan and without a rope override in
`hf_overrides`.

## Why it hurts
The engine refuses: `User-specified max_model_len is greater than the derived max_model_len`. With the variable that
overrides the refusal it starts, and answers nonsense beyond the native length.

## Example
    model: qwen3-coder          # native 262,144
    settings: {max_model_len: 512Ki}

## Use instead
    settings: {max_model_len: 262144}      # or `yarn_factor: 2` where the model spec has a `yarn` section

## When to ignore
Never.

## Source
vllm#7080; the bootstrap's YaRN block.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="CTX001", name="window-above-native", severity=Severity.ERROR, refusal=True,
    traps=("ctx-native-exceeded", "yarn-no-override"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when nothing stretches the rope."""
    model = subject.plan.model
    overrides = mapping(subject, "hf_overrides")
    stretched = model.yarn_factor is not None or "rope" in str(sorted(overrides.items(), key=str))
    if subject.plan.engine.max_model_len > model.native_context and not stretched:
        can = "set yarn_factor" if subject.specs.model.context.yarn else "this model has no YaRN rule"
        yield Hit(
            subject.setting_place("max_model_len"),
            f"max_model_len {subject.plan.engine.max_model_len:,} is above the native context of {model.native_context:,} tokens",
            "the engine refuses, and beyond the native length an unscaled rope gives nonsense",
            f"set max_model_len to {model.native_context:,} or less; {can}",
        )
