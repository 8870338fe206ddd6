"""The CUDA pin admits hosts older than the engine's CUDA.

## What it flags
A version in `deploy.cuda` below the CUDA that the engine's torch was built for: an error on GeForce cards.

## Why it hurts
Such a host runs the engine only through cuda-compat, which data-center cards allow and consumer cards and open kernel
modules do not.

## Example
    deploy: {cuda: {versions: ["12.8", "13.0"]}}

## Use instead
    deploy: {cuda: {minimum: "13.0"}}

## When to ignore
On data-center cards, where older hosts are cheaper and cuda-compat was seen to work.

## Source
Bootstrap notes: compat verified on A40; verl-omni#133 on open kernel modules.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import version
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="DEP003", name="cuda-pin-below-engine", severity=Severity.WARNING,
    traps=("cuda-lottery", "cudart13-missing", "cuda-compat-open-module"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each version below the engine's."""
    cuda, needed = subject.specs.profile.deploy.cuda, subject.plan.engine.cuda
    if subject.plan.target != "runpod" or needed is None:
        return
    geforce = "GeForce" in subject.plan.hardware.name
    pins: list[tuple[str, tuple[str | int, ...]]] = [(value, ("versions", index)) for index, value in enumerate(cuda.versions)]
    if cuda.minimum:
        pins.append((cuda.minimum, ("minimum",)))
    for value, route in pins:
        if version(value) < version(needed):
            what = f"hosts of CUDA {value} are admitted, and the engine needs {needed}"
            yield Hit(
                subject.place("profile", "deploy", "cuda", *route),
                what,
                "cuda-compat does not run on GeForce cards, so such a host cannot start it" if geforce else "they run it through cuda-compat at best",
                f'ask for "{needed}" or later',
                severity=Severity.ERROR if geforce else None,
            )
