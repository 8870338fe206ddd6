"""Files of one profile are copied before the engine is installed.

## What it flags
`COPY bootstrap.sh` or `manifest.json` above a `RUN` that installs.

## Why it hurts
Every edit of a spec then rebuilds and pulls the engine's gigabytes again.

## Example
    COPY bootstrap.sh manifest.json /opt/podwright/
    RUN .../install-engine.sh

## Use instead
Copy them last.

## When to ignore
Never.

## Source
How layers are cached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG014", name="profile-before-engine", severity=Severity.WARNING, stage="artifacts")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each file of the profile that stands too high."""
    lines = list(instructions(subject))
    last = max((i for i, (_, word, rest) in enumerate(lines) if word == "RUN" and "install" in rest), default=-1)
    for index, (place, word, rest) in enumerate(lines):
        if word in ("COPY", "ADD") and index < last and re.search(r"(bootstrap\.sh|manifest\.json)\b", rest):
            yield Hit(
                place,
                "files of one profile are copied above an install",
                "every edit of the spec rebuilds the engine's layers",
                "copy them after the last install",
            )
