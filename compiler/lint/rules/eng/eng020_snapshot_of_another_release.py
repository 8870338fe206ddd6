"""The engine's options are checked against the snapshot of another release.

## What it flags
An engine spec whose `flags` were taken from another release than its `release`.

## Why it hurts
Options, names and defaults differ between releases. What the snapshot refuses may be right here, so those findings are
warnings only, and what it lets pass may be refused by the engine.

## Example
    release: "0.28.0"
    flags: flags/vllm-0.27.1.json

## Use instead
    release: "0.28.0"
    flags: flags/vllm-0.28.0.json      # taken by the image's own snapshot script

## When to ignore
While no image of that release is at hand to take the snapshot from.

## Source
The snapshots of 0.26.0, 0.27.1 and 0.33.0, which differ in options, registries and attention backends.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import is_foreign

RULE = Rule(code="ENG020", name="snapshot-of-another-release", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the releases differ."""
    if is_foreign(subject):
        release, taken = subject.plan.engine.release, subject.specs.flags.release
        what = f"the options of vLLM {release} are checked against the snapshot of {taken}"
        why = "what it refuses may be right in this release, and what it lets pass may be wrong"
        yield Hit(subject.place("engine", "flags"), what, why, f"take a snapshot of {release} inside its image")
