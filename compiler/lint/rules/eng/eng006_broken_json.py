"""An option that takes JSON holds something else.

## What it flags
Text that is no JSON object, a number, or a list, for an option whose value is a JSON object.

## Why it hurts
The engine refuses it. Shells and consoles eat the quotes of JSON that people type; podwright quotes a mapping itself.

## Example
    engine_args: {compilation_config: "{'cudagraph_mode': PIECEWISE}"}

## Use instead
    engine_args: {compilation_config: {cudagraph_mode: PIECEWISE}}

## When to ignore
Never: the engine refuses.

## Source
The flag snapshot; deployment notes on JSON that lost its quotes in pod arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="ENG006", name="broken-json", severity=Severity.ERROR, traps=("args-shell-quotes",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each JSON option whose value is no object."""
    for setting in subject.plan.engine.settings:
        flag = subject.specs.flags.find(setting.name)
        if flag is None or flag.kind != "json" or flag.type == "json_or_str":
            continue
        if setting.value is not None and not isinstance(_object(setting.value), dict):
            what = f"`{setting.name}` takes a JSON object, and this is none"
            yield Hit(
                option_place(subject, setting.name),
                what,
                "the engine refuses it",
                "write a mapping; podwright makes JSON of it and quotes it",
            )


def _object(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
