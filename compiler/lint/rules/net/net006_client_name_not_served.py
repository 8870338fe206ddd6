"""Clients are told a name that the engine does not serve.

## What it flags
`client.model` or `client.small_model` that is not among the served names: an error without the translating bridge, else
an info.

## Why it hurts
The engine itself answers 404 to every unknown name, agents' names included; the translating bridge falls back to the
served model.

## Example
    bridge: {mode: native}
    client: {small_model: claude-haiku}

## Use instead
    names: [{name: claude-haiku, reason: agents ask for it}]

## When to ignore
With the translating bridge.

## Source
Deployment notes of 22 August, evening: 404 on agent names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="NET006", name="client-name-not-served", severity=Severity.ERROR, traps=("native-aliases", "native-max-tokens-names"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each name that nobody answers to."""
    client, mode = subject.specs.profile.client, subject.plan.bridge.mode
    for key, name in (("model", client.model), ("small_model", client.small_model)):
        if name is not None and name not in subject.plan.model.served_names:
            near = difflib.get_close_matches(name, subject.plan.model.served_names, n=1, cutoff=0.5)
            fix = f"add it to `names`{f', or write {near[0]}' if near else ''}"
            falls_back = mode == "translate"
            why = (
                "the bridge falls back to the served model, and nobody notices a wrong name"
                if falls_back
                else "the engine answers 404 to it"
            )
            severity = Severity.INFO if falls_back else None
            yield Hit(subject.place("profile", "client", key), f"no served name is `{name}`", why, fix, severity=severity)
