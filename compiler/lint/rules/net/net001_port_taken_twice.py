"""Two programs of the pod are given the same port.

## What it flags
Equal ports among the engine, the bridge, the desktop and sshd.

## Why it hurts
The second one cannot bind: `Address already in use`. The bootstrap stops there.

## Example
    bridge: {port: 18081}          # and engine_port defaults to 18081

## Use instead
    bridge: {port: 8080}

## When to ignore
Never.

## Source
Bootstrap: the port check before serving.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="NET001", name="port-taken-twice", severity=Severity.ERROR, traps=("port-in-use-fatal",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each program whose port another one has already."""
    profile = subject.specs.profile
    programs: list[tuple[str, int, tuple[str, ...]]] = [("the bridge", profile.bridge.port, ("bridge", "port"))]
    if profile.bridge.mode != "off":
        programs.append(("the engine", profile.engine_port, ("engine_port",)))
    if profile.desktop is not None:
        programs.append(("the desktop", profile.desktop.port, ("desktop", "port")))
    taken = {22: "sshd"} if profile.container.ssh else {}
    for name, port, route in programs:
        if port in taken:
            what = f"port {port} is given to {taken[port]} and to {name}"
            yield Hit(subject.place("profile", *route), what, "the second one cannot bind, and the pod does not serve", "move one of them")
        taken.setdefault(port, name)
