"""The engine and all that it needs is one layer.

## What it flags
A Dockerfile that installs an engine in a single `RUN`.

## Why it hurts
One layer of 18 GB took 9 to 10 minutes to pull, since parts of one layer are not fetched side by side, and any change
pulls all of it again.

## Example
    RUN .../install-engine.sh ... vllm==0.27.1

## Use instead
Give the release a lock: podwright cuts it into layers.

## When to ignore
While a release has no lock yet.

## Source
First pull of image v1, deployment notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG017", name="everything-in-one-layer", severity=Severity.WARNING, stage="artifacts", traps=("first-pull-slow",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when one line installs everything."""
    installs = [place for place, word, rest in instructions(subject) if word == "RUN" and re.search(r"install-(lock|engine)\.sh", rest)]
    if subject.plan.image.recipe == "vllm-venv" and len(installs) == 1:
        yield Hit(
            installs[0],
            "the whole engine is one layer",
            "it is pulled in one stream, and again at every change",
            "give the engine release a lock",
        )
