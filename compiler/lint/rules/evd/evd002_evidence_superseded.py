"""A choice cites a measurement that a later one replaced.

## What it flags
A superseded record in the evidence of a setting, argument, variable or section of the profile, also beside others that still hold.

## Why it hurts
The choice may be wrong by now: the later measurement is the one to read, and it names the older one where that is its control.

## Example
    evidence: [bridge/bridge-cache-before]

## Use instead
    evidence: [bridge/bridge-cache-read-exposed]

## When to ignore
Where nothing newer was measured under these conditions.

## Source
`verdict` and `superseded_by` in specs/evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.cited import citations
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="EVD002", name="evidence-superseded", severity=Severity.WARNING)


def check(subject: Subject) -> Iterator[Hit]:
    """One hit for each choice with such records, which names them all."""
    for cited, place in citations(subject):
        old = [c for c in cited if c in subject.specs.evidence and subject.specs.evidence[c].verdict == "superseded"]
        if old:
            later = sorted({record.superseded_by for c in old if (record := subject.specs.evidence[c]).superseded_by})
            what = f"{', '.join(old)} {'is' if len(old) == 1 else 'are'} superseded"
            fix = f"cite {' or '.join(later)} if it supports the choice" if later else "cite a later measurement, or reconsider"
            yield Hit(place, what, "the choice rests on what no longer holds", fix)
