"""A CUDA package is named wrongly.

## What it flags
`cuda-curand-dev-...` in the plan or in any file of the bundle.

## Why it hurts
There is no such package: the header is in `libcurand-dev-...`. Its absence is noticed at start, when the sampler is
compiled: `curand.h: No such file`.

## Example
    apt-get install cuda-curand-dev-13-0

## Use instead
apt-get install libcurand-dev-13-0

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
    code="IMG016", name="wrong-package-name", severity=Severity.ERROR,
    stage="artifacts", traps=("curand-dev-name", "curand-header"),
)  # fmt: skip

WRONG = re.compile(r"\bcuda-(curand|cublas|cusparse|cusolver|cufft)-dev-\d+-\d+")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each file that has a wrong name."""
    for path, text in texts(subject):
        if "cuda-" not in text:
            continue
        for name in sorted({match[0] for match in WRONG.finditer(text)}):
            right = name.replace("cuda-", "lib", 1)
            yield Hit(
                Place(path),
                f"there is no package {name}",
                "the header stays missing, and kernels fail to compile at start",
                f"it is called {right}",
            )
