"""A value cannot be read as what its option takes.

## What it flags
Text where a number belongs, a number where a switch belongs, a list for a single value, one text for a list of numbers.

## Why it hurts
The engine's parser refuses it, or takes the word for something else.

## Example
    engine_args: {numa_bind_nodes: "0,1"}

## Use instead
    engine_args: {numa_bind_nodes: [0, 1]}

## When to ignore
Never: the engine refuses.

## Source
Types in the flag snapshot; `--numa-bind-nodes` takes words separated by spaces, not commas (bootstrap notes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight
from compiler.lint.written import option_place
from compiler.schema.flags import Flag

RULE = Rule(code="ENG005", name="value-of-wrong-type", severity=Severity.ERROR, traps=("numa-auto-fails",), refusal=True)

WORDS = {"str": "text", "int": "a whole number", "float": "a number", "human_int": "a number such as 4096 or 4k"}
HUMAN = re.compile(r"-?\d+|\d+(\.\d+)?[kKmMgGtT]i?")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each value of the wrong type."""
    for setting in subject.plan.engine.settings:
        flag = subject.specs.flags.find(setting.name)
        if flag is None or flag.kind == "json" or setting.value is None:
            continue
        values = setting.value if isinstance(setting.value, tuple) and flag.kind in ("list", "append") else (setting.value,)
        if not all(_fits(flag, value) for value in values):
            one = WORDS.get(flag.type, flag.type)
            wanted = "true or false" if flag.kind.startswith("switch") else (f"a list, each item {one}" if flag.kind == "list" else one)
            what = f"`{setting.name}: {setting.value}` cannot be read as {wanted}"
            yield Hit(option_place(subject, setting.name), what, "the engine's parser refuses it", f"write {wanted}", weight(subject))


def _fits(flag: Flag, value: Any) -> bool:
    if flag.kind.startswith("switch") or isinstance(value, bool):
        return flag.kind.startswith("switch") and isinstance(value, bool)
    if isinstance(value, (tuple, dict)):
        return False
    if flag.type in ("int", "float"):
        return re.fullmatch(r"-?\d+" if flag.type == "int" else r"-?\d+(\.\d*)?([eE]-?\d+)?", str(value)) is not None
    return not flag.type.startswith("human_int") or HUMAN.fullmatch(str(value)) is not None or value == "auto"
