"""The boot journal is readable by everybody who can read its repository.

## What it flags
A `journal`.

## Why it hurts
It holds logs: prompts' beginnings, addresses, names of repositories. The Hub makes repositories public unless told.

## Example
    journal: {repo: me/pod-journal}

## Use instead
Make the repository private, then accept this finding under `ignore`.

## When to ignore
Once the repository is known to be private.

## Source
Reading of the bootstrap; the documents do not say whether theirs is private.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SEC006", name="journal-may-be-public", severity=Severity.INFO, traps=("journal-exposes",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for every journal."""
    if subject.plan.journal is not None:
        what = f"logs of the pod go to {subject.plan.journal.repo}"
        yield Hit(
            subject.place("profile", "journal", "repo"),
            what,
            "a public repository shows them to everybody",
            "make it private, then ignore this finding",
        )
