"""CUDA allocator settings are changed under Marlin kernels.

## What it flags
`PYTORCH_CUDA_ALLOC_CONF` or `PYTORCH_ALLOC_CONF` with a Marlin kernel: an error on compute capability 8.9
under WSL2, where it was seen, else a warning.

## Why it hurts
The start failed with every such setting that was tried; `expandable_segments` fails in a container besides, which
lacks CAP_SYS_PTRACE.

## Example
    env: {PYTORCH_CUDA_ALLOC_CONF: "max_split_size_mb:512"}

## Use instead
Unset the variable; lower the utilization if memory is short.

## When to ignore
When a start with this very value succeeded on this card; cite it.

## Source
A logbook line on two RTX 4090 under WSL2; the bootstrap's list of forbidden settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place, sm, uses_marlin
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT016", name="allocator-settings-with-marlin", severity=Severity.ERROR, traps=("alloc-flags-marlin",))


SEEN_ON = (89, "wsl2")
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each variable that is set."""
    for name in VARIABLES:
        value = environment(subject, name)
        if value and uses_marlin(subject):
            place, what = environment_place(subject, name), f"{name}={value} with Marlin kernels"
            seen = (sm(subject), subject.plan.hardware.host) == SEEN_ON
            severity = None if seen else Severity.WARNING
            yield Hit(place, what, "starts failed with allocator settings under Marlin", f"unset {name}", severity, edit=Edit("remove", place))
