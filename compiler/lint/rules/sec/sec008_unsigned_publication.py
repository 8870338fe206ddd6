"""Pods of this profile follow publications that nobody signed.

## What it flags
`publish.unsigned: true`.

## Why it hurts
A publication decides what runs in the pod. Unsigned, everybody who may write to the repository, or who stole a token that may, can
run what they like beside the model, with the pod's secrets.

## Example
    publish: {repo: me/pods, unsigned: true}

## Use instead
`podwright keygen` once, the public key it prints in the pod's `PODWRIGHT_PUBLIC_KEY`, and no `unsigned`.

## When to ignore
On a machine without secrets that follows a Hub of your own, for a test.

## Source
How the runtime takes publications over: docs/publishing.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SEC008", name="unsigned-publication", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit where pods take unsigned publications."""
    publish = subject.plan.publish
    if publish.repo is not None and publish.allow_unsigned:
        yield Hit(
            subject.place("profile", "publish", "unsigned"),
            f"pods follow {publish.repo} without asking for a signature",
            "whoever may write to the repository decides what runs in them",
            "make a key with `podwright keygen`, give the pod its public key, and remove `unsigned`",
        )
