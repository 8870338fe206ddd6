"""The tool-call parser does not read the markup that the model writes.

## What it flags
A `tool_call_parser` that cannot read the model's tool format, differs from the model spec's parser (`qwen3_xml` and
`qwen3_coder` are one), or belongs to another family than the model's. Names that no release has are MDL003's. A warning where the model spec does not know
the format: families alone prove nothing.

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
from compiler.lint.parsers import TOOL, family, is_foreign, of_family
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(
    code="MDL001", name="tool-parser-of-another-family", severity=Severity.ERROR, served=True,
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
    known, place = parsers.tool_format in READERS, option_place(subject, "tool_call_parser")
    why = "calls are not recognized: they arrive as text, and agents stop working"
    if chosen is None or not (subject.setting("tool_parser_plugin") or subject.specs.flags.knows("tool_parsers", chosen)):
        return
    if readers and chosen not in readers and not {chosen, parsers.tool_call} <= same_class:
        written = parsers.tool_format or f"what {parsers.tool_call} reads"
        what = f"tool_call_parser {chosen} on {subject.plan.model.slug}, which writes {written}"
        own = parsers.tool_call if parsers.tool_call in readers else sorted(readers)[0]
        yield Hit(place, what, why, f"set tool_call_parser to {own}", Severity.ERROR if known else Severity.WARNING)
    elif not known and is_foreign(subject, TOOL, chosen):
        fix = " or ".join(of_family(subject, TOOL, "tool_parsers"))
        what = f"tool_call_parser {chosen} on {subject.plan.model.slug}, and it belongs to other families than {family(subject)}"
        yield Hit(place, what, why, f"set tool_call_parser to {fix}" if fix else "remove tool_call_parser", Severity.WARNING)
