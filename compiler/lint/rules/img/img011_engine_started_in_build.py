"""The build starts the engine to ask for its version.

## What it flags
A `RUN` line with `vllm --version` or `import vllm`.

## Why it hurts
On a builder without a GPU it dies: `Failed to infer device type`.

## Example
    RUN vllm --version

## Use instead
RUN python verify.py vllm==0.27.1, which reads the package's metadata.

## When to ignore
On a builder with a GPU.

## Source
Bootstrap notes, prebaked image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG011", name="engine-started-in-build", severity=Severity.ERROR, stage="artifacts", traps=("vllm-version-no-gpu",))

STARTS = re.compile(r"\bvllm\s+(--version|serve|--help)|\bimport vllm\b")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each line that starts it."""
    for place, word, rest in instructions(subject):
        if word == "RUN" and STARTS.search(rest):
            yield Hit(
                place,
                "the build starts the engine",
                "without a GPU it fails to infer its device",
                "read the version with importlib.metadata",
            )
