"""A card drives a display, and nothing is reserved for it.

## What it flags
`drives_display` without `reserved`.

## Why it hurts
Free memory moves with every window. The start then runs out of memory although gigabytes looked free; three loops of
restarts in 19 days.

## Example
    host: {kind: wsl2, drives_display: true}

## Use instead
    host: {kind: wsl2, drives_display: true, reserved: 2.02GiB}

## When to ignore
Never: state what the desktop takes.

## Source
Self-hosting logbook, GPU 0 shared with Windows.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="HWR009", name="card-shared-with-desktop", severity=Severity.WARNING, traps=("desktop-gpu",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the desktop's share is unknown."""
    host = subject.specs.hardware.host
    if host.drives_display and host.reserved is None:
        what = "a desktop shares the first card, and its share is not reserved"
        fix = "state host.reserved, for instance 2GiB"
        yield Hit(subject.place("hardware", "host", "drives_display"), what, "the start runs out of memory whenever the desktop grows", fix)
