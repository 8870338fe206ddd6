"""A network volume and the places to rent contradict each other.

## What it flags
A `network_volume` with several data centers or none, or with the community cloud.

## Why it hurts
A volume lives in one data center, in the secure cloud. Elsewhere the request is refused, and reads like a lack of
capacity.

## Example
    deploy: {network_volume: abc123, data_centers: [EU-SE-1, EU-RO-1]}

## Use instead
    deploy: {network_volume: abc123, data_centers: [EU-SE-1]}

## When to ignore
Never.

## Source
RunPod's documentation on storage types.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP010", name="volume-binds-data-center", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the clouds, and one for the data centers."""
    deploy = subject.plan.deploy
    if subject.plan.target != "runpod" or subject.plan.storage.network_volume_id is None:
        return
    if "COMMUNITY" in deploy.clouds:
        yield Hit(
            subject.place("profile", "deploy", "clouds"),
            "a network volume with the community cloud",
            "volumes exist in the secure cloud only",
            "use clouds: [SECURE]",
        )
    if len(deploy.data_centers) != 1:
        what = f"a network volume with {len(deploy.data_centers) or 'no'} data centers"
        severity = Severity.WARNING if not deploy.data_centers else None
        yield Hit(
            subject.place("profile", "deploy", "data_centers"),
            what,
            "the volume is in one of them, and others are refused",
            "name the volume's data center alone",
            severity=severity,
        )
