"""The draft model has no locked revision.

## What it flags
A draft repository whose commit neither the profile nor the lock file names.

## Why it hurts
A draft is fetched beside the model and decides speed and memory. An unlocked one changes between two pods, and cannot
be checked for completeness before the Hub is switched offline.

## Example
    speculation:
      method: dspark
      draft: {repo: RedHatAI/Qwen3.6-35B-A3B-speculator.dspark}

## Use instead
    speculation:
      method: dspark
      draft: {repo: RedHatAI/Qwen3.6-35B-A3B-speculator.dspark, revision: <40 hexadecimal digits>}      # or podwright lock

## When to ignore
While no machine with access to the Hub is at hand.

## Source
Bootstrap: a draft that was missing when HF_HUB_OFFLINE was set stopped the start with `Invalid repository ID`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD010", name="draft-not-locked", severity=Severity.WARNING, traps=("dspark-offline",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each draft without a commit."""
    for draft in subject.plan.engine.drafts:
        if draft.revision is None:
            yield Hit(
                subject.place("profile", "speculation", "draft", "repo"),
                f"the draft {draft.repo} has no revision",
                "another pod may fetch another draft",
                f"run `podwright lock {subject.plan.profile}`",
            )
