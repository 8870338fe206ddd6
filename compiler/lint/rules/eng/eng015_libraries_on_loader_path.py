"""`LD_LIBRARY_PATH` is set by hand.

## What it flags
Any `LD_LIBRARY_PATH` in a spec: an error where it names libraries of a Python environment or a compat folder, else a warning.

## Why it hurts
CUDA libraries of the Python environment on it break the int4 kernels (`Ninja build failed`), and a compat folder on it
breaks hosts with a newer driver. The bootstrap puts cuda-compat there, and only on hosts that need it.

## Example
    env: {LD_LIBRARY_PATH: /opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib}

## Use instead
Leave it unset.

## When to ignore
Where a library of your own has no other way in; never for CUDA libraries.

## Source
Bootstrap notes, verified on A40.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG015", name="libraries-on-loader-path", severity=Severity.ERROR, traps=("venv-libs-ld-path",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the variable; a warning where it holds no CUDA library."""
    value = environment(subject, "LD_LIBRARY_PATH")
    if value is not None:
        words = ("site-packages", "dist-packages", "compat")
        is_cuda = any(word in value.lower() for word in words)
        why = (
            "CUDA libraries there break kernels that are compiled at start, and compat breaks newer drivers"
            if is_cuda
            else "it goes before the image's own"
        )
        what = "LD_LIBRARY_PATH is set by hand"
        yield Hit(
            environment_place(subject, "LD_LIBRARY_PATH"),
            what,
            why,
            "remove it: the bootstrap decides it for each host",
            severity=None if is_cuda else Severity.WARNING,
        )
