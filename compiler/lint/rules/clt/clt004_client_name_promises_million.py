"""The client is told a million tokens, and fewer are served.

## What it flags
A `client.model` or `client.small_model` with `[1m]` at a smaller window.

## Why it hurts
The client compacts too late, and requests beyond the window are refused in the middle of a task.

## Example
    client: {model: "flashnext[1m]"}          # window 262,144

## Use instead
    client: {model: flashnext}

## When to ignore
Never.

## Source
Deployment notes: the suffix on a model of 262,144 tokens lies.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CLT004", name="client-name-promises-million", severity=Severity.ERROR, traps=("suffix-1m-forbidden",))

MILLION = 1_000_000


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each name that promises too much."""
    client, window = subject.specs.profile.client, subject.plan.client.context_window
    for key, name in (("model", client.model), ("small_model", client.small_model)):
        if name is not None and name.endswith("[1m]") and window < MILLION:
            what = f"{name} promises a million tokens, and {window:,} are served"
            place, bare = subject.place("profile", "client", key), name.removesuffix("[1m]")
            why = "the client compacts too late, and requests are refused"
            yield Hit(place, what, why, f"use {bare}", edit=Edit("set", place, bare))
