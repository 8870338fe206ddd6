"""torch's CUDA build is guessed on the builder.

## What it flags
`--torch-backend=auto` in any file of the bundle.

## Why it hurts
It looks at the builder's driver and takes a CUDA 12 torch, which loads, while the engine's wheels want the CUDA 13
runtime.

## Example
    uv pip install --torch-backend=auto vllm

## Use instead
Take the locked torch; hosts with an older driver get cuda-compat.

## When to ignore
Never.

## Source
Bootstrap notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Place, Severity
from compiler.lint.built import texts
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="IMG015", name="torch-backend-guessed", severity=Severity.ERROR,
    stage="artifacts", traps=("torch-backend-auto", "base-torch-duplicate"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each file that guesses."""
    for path, text in texts(subject):
        if re.search(r"--torch-backend[= ]auto", text):
            what = "--torch-backend=auto"
            yield Hit(Place(path), what, "it takes the CUDA of the builder's driver, not the engine's", "install the locked torch")
