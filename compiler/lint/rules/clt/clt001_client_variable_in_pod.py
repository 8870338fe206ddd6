"""A variable of the client is set in the pod.

## What it flags
`ANTHROPIC_*`, `CLAUDE_*` or `OPENAI_*` variables in `env` or `secrets`.

## Why it hurts
They mean nothing there. On the client, `ANTHROPIC_API_KEY` beats the endpoint's token: every request then goes to the
official interface and is billed there.

## Example
    env: {ANTHROPIC_MODEL: nemotron}

## Use instead
    client: {model: nemotron}

## When to ignore
For a program of your own in the pod that calls such an interface.

## Source
Deployment notes, pointing Claude Code at the endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="CLT001", name="client-variable-in-pod", severity=Severity.WARNING)

PREFIXES = ("ANTHROPIC_", "CLAUDE_", "OPENAI_")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each such variable."""
    profile = subject.specs.profile
    places = [(name, subject.place("profile", "env", name)) for name in profile.env]
    places += [(secret.env, subject.place("profile", "secrets", index, "env")) for index, secret in enumerate(profile.secrets)]
    for name, place in places:
        if name.startswith(PREFIXES):
            why = "the pod does not read it; connect.sh sets what the client needs"
            yield Hit(place, f"{name} belongs to the client", why, "use the `client` section", on_key=True)
