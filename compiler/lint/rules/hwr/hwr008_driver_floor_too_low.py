"""The hardware accepts a driver that the engine's CUDA does not run on.

## What it flags
A `host.min_driver` below the `min_driver` of the engine release.

## Why it hurts
The bootstrap then takes a host for good that needs cuda-compat, and torch answers `The NVIDIA driver on your system is
too old`.

## Example
    host: {kind: rented, min_driver: 550}

## Use instead
    host: {kind: rented, min_driver: 580}

## When to ignore
Never: the bootstrap reaches older drivers by cuda-compat anyway.

## Source
Bootstrap notes: found version 12080 with a driver of 570.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="HWR008", name="driver-floor-too-low", severity=Severity.ERROR, traps=("cudart13-missing",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the hardware's floor is the lower one."""
    needed, floor = subject.specs.engine.min_driver, subject.plan.hardware.min_driver
    if needed is not None and floor < needed:
        what = f"driver {floor} is accepted, and CUDA {subject.plan.engine.cuda} needs {needed}"
        why = "hosts between the two are not given cuda-compat, and torch finds their driver too old"
        place = subject.place("hardware", "host", "min_driver")
        yield Hit(place, what, why, f"set it to {needed}", edit=Edit("set", place, needed))
