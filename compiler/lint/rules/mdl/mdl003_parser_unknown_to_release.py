"""The engine release has no parser of that name.

## What it flags
A `tool_call_parser` or `reasoning_parser` that is not in the release's own registry, unless a plugin is named. A warning for a
tool parser without `enable_auto_tool_choice`, which the engine never looks up.

## Why it hurts
The engine refuses at the start: `invalid tool call parser`. Names change between releases.

## Example
    engine: vllm-0.27.1
    settings: {tool_call_parser: qwen3-coder}      # it is qwen3_coder

## Use instead
A name from the message, which lists the nearest one.

## When to ignore
Never: the engine refuses.

## Source
The registries of each release's flag snapshot; 0.27.1 asked with both.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight

RULE = Rule(code="MDL003", name="parser-unknown-to-release", severity=Severity.ERROR, refusal=True)


PARSERS = (
    ("tool_call_parser", "tool_parsers", "tool_parser_plugin"),
    ("reasoning_parser", "reasoning_parsers", "reasoning_parser_plugin"),
)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each unknown name."""
    for setting, registry, plugin in PARSERS:
        name = subject.setting(setting)
        if name and not subject.setting(plugin) and not subject.specs.flags.knows(registry, str(name)):
            known = subject.specs.flags.registries[registry]
            unasked = setting == "tool_call_parser" and not subject.setting("enable_auto_tool_choice")
            close = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            yield Hit(
                subject.setting_place(setting),
                f"vLLM {subject.specs.flags.release} has no {setting} {name}",
                "the engine ignores it, and calls stay text" if unasked else "the engine refuses at the start",
                f"write {close[0]}" if close else f"choose one of {', '.join(sorted(known))}",
                severity=Severity.WARNING if unasked else weight(subject),
            )
