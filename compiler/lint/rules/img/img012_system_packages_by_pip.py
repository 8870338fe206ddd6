"""pip installs into the system's Python.

## What it flags
A `RUN` line with `pip install` or `uv pip install --system` that names no environment.

## Why it hurts
Ubuntu 24.04 marks its Python as externally managed and refuses; the official image's environment has no pip at all;
`--break-system-packages` breaks the distribution's own tools.

## Example
    RUN pip install vllm

## Use instead
RUN /opt/uv/bin/uv pip install --python /opt/venv/bin/python ...

## When to ignore
Never.

## Source
Bootstrap notes (PEP 668); vllm case pep668-image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="IMG012", name="system-packages-by-pip", severity=Severity.ERROR,
    stage="artifacts", traps=("pep668", "lmcache-no-pip", "pep668-image"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each such line."""
    for place, word, rest in instructions(subject):
        into_system = "--system" in rest or "--break-system-packages" in rest
        bare = re.search(r"(^|[\s;&|(])(?<!uv )(pip3?|python3? -m pip) install\b", rest) is not None
        if word == "RUN" and "pip" in rest and (into_system or bare):
            yield Hit(
                place,
                "packages go into the system's Python",
                "it is externally managed and refuses, or its own tools break",
                "install into the environment with uv pip install --python",
            )
