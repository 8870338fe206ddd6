"""The checkpoint can change between two starts.

## What it flags
A Hub repository without a locked commit. Folders that an owner mounts are left out.

## Why it hurts
The Hub serves whatever the branch points at: new weights, a new chat template, a new config, on the day of a restart.

## Example
    checkpoint: {repo: owner/model}

## Use instead
Run `podwright lock PROFILE` where the Hub can be reached.

## When to ignore
Offline, or while a model is tried.

## Source
How the Hub resolves a branch.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="PIN001", name="checkpoint-not-pinned", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit without a commit."""
    model = subject.plan.model
    if subject.specs.model.checkpoint.repo is not None and model.revision is None:
        what = f"{model.repo} is not pinned to a commit"
        fix = f"run `podwright lock {subject.plan.profile}`, or set checkpoint.revision"
        yield Hit(
            subject.place("model", "checkpoint", "revision"), what, "a restart may load other weights, another template or config", fix
        )
