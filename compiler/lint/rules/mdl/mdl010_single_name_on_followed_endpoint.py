"""Running pods follow this profile, and only one name is served.

## What it flags
A profile that publishes to a repository, with a single served name.

## Why it hurts
When another model takes over, every client that sends the old name gets 404. With the old name kept as an alias,
clients move when they like.

## Example
    publish: {repo: owner/manifests}      # and one name

## Use instead
    names:
      - {name: old-model, reason: clients configured before the change}

## When to ignore
While no client depends on the name.

## Source
The logbook's model migrations: alias first, then the honest name.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL010", name="single-name-on-followed-endpoint", severity=Severity.INFO, traps=("two-served-names",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when there is no second name."""
    names = subject.plan.model.served_names
    if subject.plan.publish.repo is not None and len(names) == 1:
        yield Hit(
            subject.place("profile", "publish"),
            f"{names[0]} is the only served name",
            "a later change of the model breaks every client that sends it",
            "serve an alias too",
        )
