"""`CUDA_HOME` is not one clean directory.

## What it flags
A `CUDA_HOME` with a colon in it, a relative one, or an empty one.

## Why it hurts
FlashInfer builds `$CUDA_HOME/bin/nvcc` from it at start and finds nothing: `/bin/sh: :/usr/local/cuda/bin/nvcc: not
found`.

## Example
    env: {CUDA_HOME: ":/usr/local/cuda"}

## Use instead
    env: {CUDA_HOME: /usr/local/cuda-13.0}

## When to ignore
Never. Leave it unset: the bootstrap sets it to the CUDA of the image.

## Source
vllm#36077.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG013", name="broken-cuda-home", severity=Severity.ERROR, traps=("flashinfer-cuda-home-colon",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the variable is no absolute path."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        value = environment(subject, name)
        if value is not None and (":" in value or not value.startswith("/")):
            what = f"{name} is `{value}`, which is not one directory"
            place = environment_place(subject, name)
            why = "kernels that are compiled at start look for nvcc below it and fail"
            yield Hit(place, what, why, "leave it unset", edit=Edit("remove", place))
