"""The Hub is switched off by hand.

## What it flags
`HF_HUB_OFFLINE` or `TRANSFORMERS_OFFLINE` set to 1 in a spec.

## Why it hurts
A fresh pod has no weights and may not fetch them. The bootstrap goes offline by itself once the very model that it
serves is complete on disk.

## Example
    env: {HF_HUB_OFFLINE: "1"}

## Use instead
Leave it unset; `VL_HFOFFLINE=on` is the emergency lever.

## When to ignore
With a network volume that is known to hold the whole model.

## Source
Bootstrap notes: an offline check that any cached model satisfied.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG016", name="offline-by-hand", severity=Severity.ERROR, traps=("offline-model-unset",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each variable; a warning where a network volume may hold the weights."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        value = (environment(subject, name) or "").lower()
        if value in ("1", "true", "yes", "on") and subject.specs.model.checkpoint.repo:
            kept = subject.plan.storage.network_volume_id is not None
            what, why = f"{name}={value} on a pod that must download its model", "a fresh pod finds no weights and never starts"
            place, severity = environment_place(subject, name), Severity.WARNING if kept else None
            yield Hit(place, what, why, "remove it", severity=severity, edit=None if kept else Edit("remove", place))
