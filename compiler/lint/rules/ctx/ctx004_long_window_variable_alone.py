"""The variable that silences the window check is set, and no rope scaling is applied.

## What it flags
`VLLM_ALLOW_LONG_MAX_MODEL_LEN=1` without a YaRN factor in the plan: an error where the window is above the native context, else a
warning.

## Why it hurts
It only silences the refusal. Positions beyond the native length are not rescaled, and the logits become NaN or noise.

## Example
    env: {VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1"}
    settings: {max_model_len: 1M}

## Use instead
    yarn_factor: 4      # the rope override that takes effect does not need the variable

## When to ignore
Never.

## Source
The bootstrap's YaRN block; `engine-yarn-top-level`; the engine's own words where it is set: positions beyond the model's give NaN
or wrong text.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place, mapping
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CTX004", name="long-window-variable-alone", severity=Severity.ERROR, traps=("allow-long-alone",))


VARIABLE = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the variable stands alone."""
    overridden = "rope" in str(sorted(mapping(subject, "hf_overrides").items(), key=str))
    on = (environment(subject, VARIABLE) or "0").lower() in ("1", "true")
    if on and subject.plan.model.yarn_factor is None and not overridden:
        place = environment_place(subject, VARIABLE)
        what, why = f"{VARIABLE} is set without rope scaling", "the engine then accepts windows in which it answers noise"
        beyond = subject.plan.engine.max_model_len > subject.plan.model.native_context
        fix = "remove it; a window that YaRN stretches does not need it"
        yield Hit(place, what, why, fix, None if beyond else Severity.WARNING, edit=Edit("remove", place))
