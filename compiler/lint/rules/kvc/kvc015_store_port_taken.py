"""LMCache listens on a port that another process of the pod uses.

## What it flags
A `kv_store` whose HTTP or ZMQ port is the bridge's, the engine's or the other one's.

## Why it hurts
LMCache's HTTP front end takes 8080 by default, which is the bridge's port. One of the two then cannot bind.

## Example
    bridge: {mode: translate, port: 8080}
    kv_store: {size_gib: 32, chunk: 1600}          # http_port defaults to 8080

## Use instead
    bridge: {mode: translate, port: 8088}

## When to ignore
Never.

## Source
Bootstrap v81, seen on two hosts.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="KVC015", name="store-port-taken", severity=Severity.ERROR, traps=("lmcache-8080",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each of LMCache's ports that is taken."""
    store = subject.plan.kv_store
    if store is None:
        return
    taken = {subject.plan.network.engine_port: "the engine", subject.plan.network.endpoint_port: "the endpoint"}
    if subject.plan.bridge.mode != "off":
        taken[subject.plan.bridge.port] = "the bridge"
    with_http = {**taken, store.http_port: "its HTTP front end"}
    for key, port, others in (("http_port", store.http_port, taken), ("zmq_port", store.zmq_port, with_http)):
        if port in others:
            yield Hit(
                subject.place("profile", "kv_store", key),
                f"LMCache's {key} {port} is also the port of {others[port]}",
                "one of the two cannot bind, and the pod does not serve",
                "move one of them, for instance bridge.port to 8088",
            )
