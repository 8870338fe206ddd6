"""Clients' effort levels reach nobody.

## What it flags
A reasoning model behind bridge mode `off` or `keepalive`, on a release whose own Anthropic endpoint ignores `thinking`.

## Why it hurts
Effort low then costs as much as max, and switching thinking off has no effect.

## Example
    bridge: {mode: keepalive}

## Use instead
    bridge: {mode: translate}

## When to ignore
Where every client sends chat completions with its own template arguments.

## Source
Deployment notes: the field is missing in AnthropicMessagesRequest of 0.27.1.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="NET008", name="effort-ignored-without-bridge", severity=Severity.WARNING,
    traps=("native-ignores-thinking", "dspark-v2-runner"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when bytes pass through untouched."""
    ignores = "native-anthropic-ignores-thinking" in subject.specs.engine.limits
    if subject.plan.model.reasoning and ignores and subject.plan.bridge.mode in ("off", "keepalive"):
        what = f"bridge mode {subject.plan.bridge.mode} passes effort levels to an endpoint that ignores them"
        yield Hit(subject.place("profile", "bridge", "mode"), what, "effort low costs as much as max", "use mode translate or native")
