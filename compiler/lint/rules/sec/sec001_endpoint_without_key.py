"""Anybody who finds the address can use the endpoint.

## What it flags
`bridge.require_key: false`: an error at RunPod, an info where the endpoint is bound to the own machine.

## Why it hurts
The provider's proxy is public and checks nothing; addresses are made of the pod's id and can be found. An exposed
server of the logbook was broken into.

## Example
    bridge: {require_key: false}

## Use instead
    bridge: {require_key: true}

## When to ignore
On an own machine that nobody else reaches.

## Source
RunPod contract, network; self-hosting logbook, September 2025.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SEC001", name="endpoint-without-key", severity=Severity.ERROR, traps=("apt-incident",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no key is asked for."""
    if subject.plan.bridge.api_key_env is None:
        is_public = subject.plan.target == "runpod"
        why = (
            "the provider's proxy is public, and strangers then use what you pay for"
            if is_public
            else "everybody who reaches this machine can use it"
        )
        severity = None if is_public else Severity.INFO
        place = subject.place("profile", "bridge", "require_key")
        edit = Edit("set", place, True) if is_public else None
        yield Hit(place, "the endpoint asks for no key", why, "set require_key: true", severity=severity, edit=edit)
