"""Python code of an unpinned checkpoint runs in the pod.

## What it flags
`trust_remote_code` without a locked commit.

## Why it hurts
The checkpoint's own code runs with all rights, secrets in reach, and whoever can push to its repository decides at
every start what it is.

## Example
    settings: {trust_remote_code: true}

## Use instead
Run `podwright lock PROFILE`, or leave it out where the engine knows the architecture.

## When to ignore
For your own repository.

## Source
How transformers loads code.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="PIN005", name="remote-code-not-pinned", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the code may change."""
    model = subject.plan.model
    if subject.setting("trust_remote_code") and subject.specs.model.checkpoint.repo and model.revision is None:
        what = f"code of {model.repo} runs in the pod, whatever it is that day"
        fix = f"run `podwright lock {subject.plan.profile}`, or remove trust_remote_code"
        yield Hit(option_place(subject, "trust_remote_code"), what, "it has the pod's secrets in reach", fix)
