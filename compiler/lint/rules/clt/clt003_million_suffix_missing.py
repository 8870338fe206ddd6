"""A million tokens are served, and the client is not told.

## What it flags
A `client.model` without `[1m]` at a window of a million tokens and more.

## Why it hurts
Without the suffix the client compacts at about 150,000 tokens, and six sevenths of the window stay unused.

## Example
    client: {model: nemotron}          # window 1,048,576

## Use instead
    client: {model: "claude-nemotron[1m]"}

## When to ignore
For clients other than Claude Code.

## Source
Deployment notes, window of a million.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CLT003", name="million-suffix-missing", severity=Severity.WARNING)

MILLION = 1_000_000


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the suffix is missing."""
    client = subject.plan.client
    if client.context_window >= MILLION and not client.model.endswith("[1m]"):
        what = f"the client is told {client.model}, and {client.context_window:,} tokens are served"
        yield Hit(subject.place("profile", "client", "model"), what, "Claude Code compacts at about 150,000 tokens", "add the suffix [1m]")
