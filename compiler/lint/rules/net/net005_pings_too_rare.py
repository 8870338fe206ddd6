"""Pings come later than the proxy waits.

## What it flags
A `bridge.ping` of 100 s and more at RunPod is an error, above 60 s a warning.

## Why it hurts
The proxy cuts after 100 s without a byte; a ping after that comes to nobody.

## Example
    bridge: {ping: 2min}

## Use instead
    bridge: {ping: 15s}

## When to ignore
Never at RunPod.

## Source
Deployment notes: 72 pings of 15 s carried a prefill of 538.8 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="NET005", name="pings-too-rare", severity=Severity.ERROR, traps=("proxy-125s",))

CUT_S, LATE_S = 100.0, 60.0


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for a period too long."""
    ping = subject.plan.bridge.ping_seconds
    if subject.plan.target == "runpod" and subject.plan.bridge.mode != "off" and ping > LATE_S:
        cut = ping >= CUT_S
        why = "the proxy has cut the connection by then" if cut else "a busy bridge that is a little late loses the connection"
        yield Hit(
            subject.place("profile", "bridge", "ping"),
            f"a ping after {ping:g} s of silence",
            why,
            "use 15s",
            severity=None if cut else Severity.WARNING,
        )
