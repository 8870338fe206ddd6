"""A program listens on the port of Jupyter or ssh.

## What it flags
The endpoint, the engine or the desktop on 22 or 8888.

## Why it hurts
22 is sshd's, 8888 is Jupyter's where a template starts it, which is RunPod's default.

## Example
    bridge: {port: 8888}

## Use instead
    bridge: {port: 8080}

## When to ignore
For 8888 on a template that starts no Jupyter: podwright's own does not.

## Source
RunPod contract, templates and ports.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="NET003", name="port-of-other-service", severity=Severity.WARNING)

OWNERS = {22: "sshd", 8888: "Jupyter"}


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each of those ports."""
    profile = subject.specs.profile
    ports: list[tuple[int, tuple[str, ...]]] = [(profile.bridge.port, ("bridge", "port")), (profile.engine_port, ("engine_port",))]
    if profile.desktop is not None:
        ports.append((profile.desktop.port, ("desktop", "port")))
    for port, route in ports:
        if subject.plan.target == "runpod" and port in OWNERS:
            yield Hit(
                subject.place("profile", *route),
                f"port {port} is {OWNERS[port]}'s",
                "one of the two cannot bind, or is reached by mistake",
                "use 8080",
            )
