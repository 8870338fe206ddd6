"""A choice cites a measurement that rejected this very value.

## What it flags
A setting whose evidence was made with the chosen value and is marked as rejected, and no other record supports it.

## Why it hurts
The evidence says the opposite of the choice.

## Example
    mamba_cache_mode: {value: all, evidence: [nemotron-ada/nemotron-ada-all-kv]}

## Use instead
    mamba_cache_mode: {value: align, ...}

## When to ignore
Where the rejection was about something else in the same run.

## Source
`verdict` and `settings` in specs/evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import written_options

RULE = Rule(code="EVD003", name="evidence-rejects-value", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each setting whose value a cited record rejects and none supports."""
    for written in written_options(subject):
        records = [subject.specs.evidence[c] for c in written.choice.evidence if c in subject.specs.evidence]
        same = [r for r in records if _value(r.settings, written.dest) == _plain(written.choice.value)]
        rejecting = [r.id for r in same if r.verdict == "rejected"]
        if rejecting and all(r.verdict in ("rejected", "superseded") for r in records):
            what = f"{', '.join(rejecting)} rejected `{written.dest}: {written.choice.value}`"
            yield Hit(written.place, what, "the evidence says the opposite of the choice", "choose what was kept, or cite what supports it")


def _value(settings: Mapping[str, Any], name: str) -> str | None:
    """The record's value for an option; records spell options with dashes, underscores or capitals."""
    plain = {key.lower().strip("-").replace("-", "_"): value for key, value in settings.items()}
    return _plain(plain[name]) if name in plain else None


def _plain(value: Any) -> str:
    return str(value).lower()
