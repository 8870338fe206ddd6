"""The tool-call parser does not read the markup that the model writes.

## What it flags
A `tool_call_parser` that cannot read the model's tool format, or differs from the model spec's parser (`qwen3_xml`
and `qwen3_coder` are one). A warning where the model spec does not know the format.

## Why it hurts
The call stays text: `tool_calls` is empty, and an agent prints markup instead of working. Nothing in the log says so.

## Example
    model: kimi-linear-awq
    settings: {tool_call_parser: hermes}

## Use instead
    model: kimi-linear-awq       # its spec sets kimi_k2

## When to ignore
When the chat template was replaced together with the parser.

## Source
vllm#21571, vllm#17161; Kimi-Linear with hermes and kimi_k3; Nemotron's template, which is Qwen's XML.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import text
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MDL001", name="tool-parser-of-another-family", severity=Severity.ERROR,
    traps=(
        "kimi-hermes", "kimi-k3-parser", "nemotron-parser", "qwen3-xml-equals-coder", "tool-parser-hermes-on-coder",
        "tool-parser-missing-family",
    ),
)  # fmt: skip


READERS = {"hermes-json": {"hermes"}, "qwen-xml": {"qwen3_xml", "qwen3_coder"}, "kimi-sections": {"kimi_k2"}}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when parser and markup differ."""
    chosen, parsers = text(subject, "tool_call_parser"), subject.specs.model.parsers
    readers = READERS.get(parsers.tool_format or "", {parsers.tool_call} if parsers.tool_call else set())
    same_class = {"qwen3_xml", "qwen3_coder"}
    if chosen is None or not readers or chosen in readers or {chosen, parsers.tool_call} <= same_class:
        return
    written = parsers.tool_format or f"what {parsers.tool_call} reads"
    yield Hit(
        subject.setting_place("tool_call_parser"),
        f"tool_call_parser {chosen} on {subject.plan.model.slug}, which writes {written}",
        "calls are not recognized: they arrive as text, and agents stop working",
        f"set tool_call_parser to {parsers.tool_call or sorted(readers)[0]}",
        severity=Severity.ERROR if parsers.tool_format in READERS else Severity.WARNING,
    )
