"""A choice rests only on measurements that later ones replaced.

## What it flags
A setting, argument, variable or section of the profile all of whose evidence is marked as superseded. An older record
beside a newer one is a comparison, and fine.

## Why it hurts
The choice may be wrong by now: the later measurement is the one to read.

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

RULE = Rule(code="EVD002", name="evidence-superseded", severity=Severity.INFO)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each choice without a record that still holds."""
    for cited, place in citations(subject):
        records = [subject.specs.evidence[c] for c in cited if c in subject.specs.evidence]
        if records and all(record.verdict == "superseded" for record in records):
            later = sorted({record.superseded_by for record in records if record.superseded_by})
            what = f"{', '.join(cited)} {'is' if len(cited) == 1 else 'are'} superseded"
            fix = f"cite {' or '.join(later)} if it supports the choice" if later else "cite a later measurement, or reconsider"
            yield Hit(place, what, "the choice rests on what no longer holds", fix)
