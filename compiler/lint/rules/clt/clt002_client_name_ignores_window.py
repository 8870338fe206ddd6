"""The client's model name makes it ignore the window.

## What it flags
A `client.model` that starts with `claude-` at a window below a million tokens.

## Why it hurts
Claude Code takes ids that start with claude- for its own and assumes 200,000 tokens: it overruns a smaller window and
wastes a larger one.

## Example
    client: {model: claude-flashnext}          # window 262,144

## Use instead
    client: {model: flashnext}

## When to ignore
At a window of 200,000 tokens exactly.

## Source
Deployment notes: bare name first.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CLT002", name="client-name-ignores-window", severity=Severity.WARNING, traps=("nemotron-served-name",))

MILLION = 1_000_000
ASSUMED = 200_000


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the assumed window is not the served one."""
    client = subject.plan.client
    if client.model.startswith("claude-") and client.context_window < MILLION and client.context_window != ASSUMED:
        what = f"{client.model} is taken for a model of {ASSUMED:,} tokens, and {client.context_window:,} are served"
        yield Hit(
            subject.place("profile", "client", "model"),
            what,
            "the client compacts too late or much too early",
            f"use a bare name, for instance {subject.plan.model.served_names[0].removeprefix('claude-')}",
        )
