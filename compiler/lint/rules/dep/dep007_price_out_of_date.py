"""The price is older than the profile's last proof.

## What it flags
A price read more than 180 days before the profile's `verified` date.

## Why it hurts
The report's cost for an hour is then a guess.

## Example
    prices: [{usd_per_hour: 0.88, date: "2026-01-10"}]          # verified: 2026-08-23

## Use instead
Read the price again and add a row.

## When to ignore
For hardware of one's own.

## Source
Dates in the specs.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="DEP007", name="price-out-of-date", severity=Severity.INFO)

MAX_AGE_DAYS = 180


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the dates are too far apart."""
    verified, read = subject.specs.profile.verified, subject.plan.deploy.price_date
    if verified is not None and read is not None:
        age = (_day(verified) - _day(read)).days
        if age > MAX_AGE_DAYS:
            what = f"the price was read on {read}, {age} days before the profile last served"
            yield Hit(subject.place("hardware", "prices"), what, "the cost in the report is a guess", "read it again and add a row")


def _day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text if len(text) == 10 else f"{text}-01")
