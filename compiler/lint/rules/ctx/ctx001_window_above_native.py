"""The window is longer than the model was trained for, and no rope scaling is applied.

## What it flags
`max_model_len` above the model's native context without a YaRN factor in the plan and without a rope override in
`hf_overrides`; from release 0.33 on also with a rope override that leaves `max_position_embeddings` as it was. A warning where an
override names another native length. CTX004 speaks of the variable that silences the engine.

## Why it hurts
The engine refuses: `User-specified max_model_len is greater than the derived max_model_len`. Told another native length it
starts, and positions beyond the real one are those that the model never saw.

## Example
    model: qwen3-coder          # native 262,144
    settings: {max_model_len: 512Ki}

## Use instead
    settings: {max_model_len: 262144}      # or `yarn_factor: 2` where the model spec has a `yarn` section

## When to ignore
Never.

## Source
vllm#7080; the bootstrap's YaRN block; `_get_and_verify_max_len` of 0.27.1 and 0.33.0, both asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, mapping, older
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="CTX001", name="window-above-native", severity=Severity.ERROR, refusal=True,
    traps=("ctx-native-exceeded", "yarn-no-override"),
)  # fmt: skip


# Keys of a config from which the engine derives the native length.
LENGTHS = frozenset({"max_position_embeddings", "model_max_length", "max_sequence_length", "seq_length", "max_seq_len", "n_positions"})
VARIABLE = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when nothing stretches the rope."""
    model, window = subject.plan.model, subject.plan.engine.max_model_len
    overrides = str(sorted(mapping(subject, "hf_overrides").items(), key=str))
    stretched = model.yarn_factor is not None or "rope" in overrides
    silenced = (environment(subject, VARIABLE) or "0").lower() in ("1", "true")
    if window <= model.native_context or silenced:
        return
    told = bool(_keys(mapping(subject, "hf_overrides")) & LENGTHS)
    if stretched:
        if "rope" in overrides and not told and not older(subject, 0, 33):
            what = f"the override stretches the rope to {window:,} tokens and leaves max_position_embeddings at {model.native_context:,}"
            why = "from 0.33 on the engine takes the window from that alone, and refuses"
            yield Hit(subject.setting_place("hf_overrides"), what, why, f"add max_position_embeddings: {window} beside the rope parameters")
        return
    can = "set yarn_factor" if subject.specs.model.context.yarn else "this model has no YaRN rule"
    yield Hit(
        subject.setting_place("max_model_len"),
        f"max_model_len {window:,} is above the native context of {model.native_context:,} tokens",
        "the engine believes the overridden length, and beyond the native one an unscaled rope was never trained" if told
        else "the engine refuses, and beyond the native length an unscaled rope gives nonsense",
        f"set max_model_len to {model.native_context:,} or less; {can}",
        Severity.WARNING if told else None,
    )  # fmt: skip


def _keys(overrides: Mapping[str, Any]) -> set[str]:
    """All keys, those of objects within too."""
    inner = (_keys(value) for value in overrides.values() if isinstance(value, dict))
    return set(overrides).union(*inner)
