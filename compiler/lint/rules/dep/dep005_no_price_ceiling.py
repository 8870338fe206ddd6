"""Nothing bounds what the pod may cost.

## What it flags
A pod at RunPod without `deploy.price_ceiling`.

## Why it hurts
Prices move: the same card was 0.84 USD an hour and 0.74 on one day. Several GPU ids or clouds are tried in order, and
the dearest of them would be rented too.

## Example
    deploy: {clouds: [SECURE, COMMUNITY]}

## Use instead
    deploy: {price_ceiling: {usd_per_hour: 0.85}}

## When to ignore
Never; it costs one line.

## Source
Deployment notes, prices of August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP005", name="no-price-ceiling", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when there is no ceiling."""
    if subject.plan.target == "runpod" and subject.plan.deploy.price_ceiling_usd_h is None:
        known = subject.plan.deploy.price_usd_h
        fix = "set deploy.price_ceiling" + (f": {{usd_per_hour: {known:g}}}" if known else "")
        yield Hit(
            subject.place("profile", "deploy"),
            "no price is too high for this profile",
            "prices move, and whatever is offered is rented",
            fix,
            on_key=True,
        )
