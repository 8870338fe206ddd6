"""A `VLLM_*` switch that the engine reads as a number is written as a word.

## What it flags
`VLLM_USE_*`, `VLLM_ENABLE_*`, `VLLM_DISABLE_*` and `VLLM_WSL2_*` with a value such as `true`, `on` or `yes`.

## Why it hurts
The engine turns the text into an integer first: `invalid literal for int()` while it is imported, or, where it compares
with "1", the switch stays off. podwright and its rules also take only "0" and "1" for an answer.

## Example
    env: {VLLM_USE_V2_MODEL_RUNNER: "true"}

## Use instead
    env: {VLLM_USE_V2_MODEL_RUNNER: "1"}

## When to ignore
For a variable that a release was seen to read as a word.

## Source
How the engine's module of variables reads its switches; VLLM_USE_MODELSCOPE, which takes words, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG021", name="switch-written-as-word", severity=Severity.WARNING)

SWITCH = re.compile(r"VLLM_(USE|ENABLE|DISABLE|WSL2)_.*")
WORDS = {"true": "1", "on": "1", "yes": "1", "false": "0", "off": "0", "no": "0", "": "0"}
READ_AS_WORDS = frozenset({"VLLM_USE_MODELSCOPE"})


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each switch with a word."""
    for variable in subject.plan.engine.env:
        number = WORDS.get(variable.value.strip().lower())
        if number is not None and SWITCH.fullmatch(variable.name) and variable.name not in READ_AS_WORDS:
            what = f"{variable.name} is `{variable.value}`, and the engine reads a number"
            why = "it stops while it reads its variables, or takes the switch for off"
            place = environment_place(subject, variable.name)
            yield Hit(place, what, why, f'write "{number}"', edit=Edit("set", place, number))
