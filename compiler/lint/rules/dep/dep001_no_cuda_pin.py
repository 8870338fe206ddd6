"""The pod may land on a host whose CUDA the engine cannot use.

## What it flags
A CUDA engine at RunPod without exact CUDA versions and without a floor.

## Why it hurts
Hosts of CUDA 12.4 to 13.0 are drawn at random. On the older ones: `The NVIDIA driver on your system is too old (found
version 12080)`.

## Example
    deploy: {cuda: {versions: []}}

## Use instead
    deploy: {cuda: {minimum: "13.0"}}

## When to ignore
Never for a CUDA 13 engine.

## Source
Deployment notes, the CUDA lottery; verl-omni#133.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="DEP001", name="no-cuda-pin", severity=Severity.ERROR,
    traps=("cuda-lottery", "rented-host-cuda-cap", "driver-cuda-floor"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when nothing is asked for."""
    deploy = subject.plan.deploy
    if subject.plan.target == "runpod" and subject.plan.engine.cuda and not deploy.cuda_versions and deploy.min_cuda is None:
        what = f"no CUDA is asked for, and the engine needs {subject.plan.engine.cuda}"
        fix = f'set deploy.cuda: {{minimum: "{subject.plan.engine.cuda}"}}'
        yield Hit(subject.place("profile", "deploy", "cuda"), what, "hosts with older drivers are drawn too, and torch refuses them", fix)
