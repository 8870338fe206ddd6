"""A data center is not among the known ones.

## What it flags
A `data_centers` entry that RunPod did not have when podwright's table was read.

## Why it hurts
An unknown one is answered like a lack of capacity.

## Example
    deploy: {data_centers: [EU-SE-9]}

## Use instead
    deploy: {data_centers: [EU-SE-1]}

## When to ignore
For a data center newer than the table.

## Source
RunPod's REST v1 document of July 2026 and its documentation.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.runpod_names import DATA_CENTERS

RULE = Rule(code="DEP015", name="unknown-data-center", severity=Severity.INFO)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each unknown one."""
    for index, center in enumerate(subject.plan.deploy.data_centers):
        if center not in DATA_CENTERS:
            near = difflib.get_close_matches(center, sorted(DATA_CENTERS), n=1, cutoff=0.6)
            fix = f"did you mean {near[0]}?" if near else "compare with RunPod's catalogue"
            yield Hit(
                subject.place("profile", "deploy", "data_centers", index),
                f"{center} is not a known data center",
                "a wrong one is answered like a lack of capacity",
                fix,
            )
