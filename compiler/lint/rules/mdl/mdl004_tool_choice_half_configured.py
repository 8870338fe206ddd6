"""Automatic tool choice and the tool parser do not go together.

## What it flags
`enable_auto_tool_choice` without a `tool_call_parser` (an error), or a parser without `enable_auto_tool_choice` (a
warning).

## Why it hurts
The engine refuses the first. With the second it answers every request that carries tools with an error: `auto tool
choice requires ...`.

## Example
    settings: {tool_call_parser: qwen3_coder}

## Use instead
    settings: {tool_call_parser: qwen3_coder, enable_auto_tool_choice: true}

## When to ignore
The warning, when no client ever sends tools.

## Source
0.27.1's argument validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL004", name="tool-choice-half-configured", severity=Severity.ERROR, refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when one of the two stands alone."""
    auto, parser = subject.setting("enable_auto_tool_choice"), subject.setting("tool_call_parser")
    if auto and not parser:
        yield Hit(
            subject.setting_place("enable_auto_tool_choice"), "automatic tool choice without a tool parser",
            "the engine refuses at the start", "set tool_call_parser",
        )  # fmt: skip
    elif parser and not auto:
        yield Hit(
            subject.setting_place("tool_call_parser"), "a tool parser without automatic tool choice",
            "requests that carry tools are answered with an error", "set enable_auto_tool_choice to true",
            severity=Severity.WARNING, edit=Edit("set", subject.setting_place("enable_auto_tool_choice"), True),
        )  # fmt: skip
