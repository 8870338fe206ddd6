"""The last known price is above the ceiling.

## What it flags
A dated price of the hardware above `deploy.price_ceiling`.

## Why it hurts
Nothing will be rented: every offer is refused.

## Example
    deploy: {price_ceiling: {usd_per_hour: 0.5}}

## Use instead
Raise the ceiling, or choose other hardware.

## When to ignore
Where the price is known to have fallen; then correct it in the hardware spec.

## Source
The hardware's dated prices.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP006", name="price-above-ceiling", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when even the known price is too high."""
    price, ceiling = subject.plan.deploy.price_usd_h, subject.plan.deploy.price_ceiling_usd_h
    if price is not None and ceiling is not None and price > ceiling:
        what = f"{price:g} USD an hour, read on {subject.plan.deploy.price_date}, is above the ceiling of {ceiling:g}"
        yield Hit(
            subject.place("profile", "deploy", "price_ceiling"),
            what,
            "no offer will be taken",
            "raise the ceiling, or correct the price in the hardware spec",
        )
