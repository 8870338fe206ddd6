"""A program listens where RunPod's official images start an nginx.

## What it flags
A port among 3001, 7270, 7861, 8001, 8081 and 9091: an error on a base that starts that nginx, else a warning.

## Why it hurts
`OSError: [Errno 98] Address already in use`, after the weights were loaded. The error's port says nothing about nginx.

## Example
    engine_port: 8081

## Use instead
    engine_port: 18081

## When to ignore
On a base that is not RunPod's.

## Source
Bootstrap notes; RunPod's containers, nginx.conf.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="NET002", name="port-of-official-nginx", severity=Severity.ERROR, traps=("nginx-ports",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each port of the profile on that list."""
    profile = subject.specs.profile
    starts_nginx = any(base.nginx for base in subject.specs.engine.images if base.image == subject.plan.image.base)
    if subject.plan.target != "runpod" and not starts_nginx:
        return
    ports: list[tuple[int, tuple[str, ...]]] = [(profile.bridge.port, ("bridge", "port")), (profile.engine_port, ("engine_port",))]
    if profile.desktop is not None:
        ports.append((profile.desktop.port, ("desktop", "port")))
    if profile.kv_store is not None:
        ports += [(profile.kv_store.http_port, ("kv_store", "http_port")), (profile.kv_store.zmq_port, ("kv_store", "zmq_port"))]
    for port, route in ports:
        if port in subject.plan.network.forbidden:
            why = "this base starts it, and the port is taken" if starts_nginx else "on one of those bases the port would be taken"
            fix = "use 18081 inside and 8080 outside"
            yield Hit(
                subject.place("profile", *route),
                f"an nginx of RunPod's images takes port {port}",
                why,
                fix,
                severity=None if starts_nginx else Severity.WARNING,
            )
