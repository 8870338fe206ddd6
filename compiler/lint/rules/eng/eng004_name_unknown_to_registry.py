"""A backend, parser or connector has a name that the release does not know.

## What it flags
`attention_backend`, `mamba_backend`, `tool_call_parser`, `reasoning_parser`, `load_format`, `quantization` or a KV
connector that no registry of the release lists, and that no plug-in option brings along.

## Why it hurts
The parser lets the name pass, and the engine dies after the weights were downloaded: `KeyError: invalid tool call
parser`.

## Example
    settings: {tool_call_parser: qwen3-coder}

## Use instead
    settings: {tool_call_parser: qwen3_coder}

## When to ignore
Where the image brings a plug-in that registers the name.

## Source
The registries in the flag snapshot of the release.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="ENG004", name="name-unknown-to-registry", severity=Severity.ERROR)

# Option, registry, whether case matters, and the option that brings further names along.
REGISTRIES = (
    ("attention_backend", "attention_backends", False, ""),
    ("mamba_backend", "mamba_backends", False, ""),
    ("tool_call_parser", "tool_parsers", True, "tool_parser_plugin"),
    ("reasoning_parser", "reasoning_parsers", True, "reasoning_parser_plugin"),
    ("load_format", "load_formats", True, ""),
    ("quantization", "quantization_methods", True, ""),
    ("kv_transfer_config", "kv_connectors", True, ""),
)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each name that its registry lacks."""
    for option, registry, exact, plugin in REGISTRIES:
        value = subject.setting(option)
        if isinstance(value, dict):
            value = None if value.get("kv_connector_module_path") else value.get("kv_connector")
        known = subject.specs.flags.registries.get(registry, ())
        if not isinstance(value, str) or not value or not known or subject.setting(plugin):
            continue
        if value not in known and (exact or value.upper() not in {name.upper() for name in known}):
            near = difflib.get_close_matches(value, known, n=1, cutoff=0.5)
            fix = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
            what = f"vLLM {subject.specs.flags.release} knows no `{value}` for `{option}`"
            yield Hit(option_place(subject, option), what, "the engine dies at start, after the download", fix)
