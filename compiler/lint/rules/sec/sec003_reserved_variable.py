"""A variable's name belongs to the provider or to podwright.

## What it flags
Names that start with `RUNPOD_`, and `PUBLIC_KEY` and `JUPYTER_PASSWORD`, among `env` or `secrets`; `PODWRIGHT_` names
other than the endpoint's and the publisher's key.

## Why it hurts
The provider sets them in every pod: one of the two values is lost, and the runtime may act on the wrong one.

## Example
    env: {RUNPOD_POD_ID: abc}

## Use instead
Choose another name.

## When to ignore
Never.

## Source
RunPod contract, environment.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SEC003", name="reserved-variable", severity=Severity.ERROR)

PROVIDER = ("PUBLIC_KEY", "JUPYTER_PASSWORD")
OWN = ("PODWRIGHT_API_KEY", "PODWRIGHT_PUBLIC_KEY")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each reserved name."""
    profile = subject.specs.profile
    places = [(name, subject.place("profile", "env", name)) for name in profile.env]
    places += [(secret.env, subject.place("profile", "secrets", index, "env")) for index, secret in enumerate(profile.secrets)]
    for name, place in places:
        is_own = name.startswith("PODWRIGHT_") and name not in OWN
        if name.startswith("RUNPOD_") or name in PROVIDER or is_own:
            owner = "podwright" if is_own else "RunPod"
            yield Hit(place, f"{name} is {owner}'s own", "it is set in every pod, and one of the two values is lost", "choose another name")
