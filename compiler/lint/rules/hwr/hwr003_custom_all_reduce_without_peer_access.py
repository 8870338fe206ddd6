"""The engine's own all-reduce is on where GPUs cannot reach each other.

## What it flags
Tensor parallel above 1 without peer access, and `disable_custom_all_reduce` is not true.

A warning on a machine of one's own and on GeForce cards, where the engine can find it out by itself.

## Why it hurts
It is the other road of peer access: with NCCL told, the spin persists. Switching it off costs about 37,000 tokens of
cache.

## Example
    interconnect: {kind: pcie, peer_to_peer: false}

## Use instead
    engine: {disable_custom_all_reduce: true}

## When to ignore
Never.

## Source
Deployment notes, two A40.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="HWR003", name="custom-all-reduce-without-peer-access", severity=Severity.ERROR, traps=("custom-all-reduce",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when it is not switched off."""
    split = subject.plan.engine.tensor_parallel > 1 and on_gpu(subject)
    if split and not subject.plan.hardware.peer_to_peer and subject.setting("disable_custom_all_reduce") is not True:
        sure = subject.plan.hardware.host == "rented" and "GeForce" not in subject.plan.hardware.name
        severity = None if sure else Severity.WARNING
        what = "the engine's own all-reduce is on, and these GPUs have no peer access"
        fix = "set engine.disable_custom_all_reduce: true in the hardware spec"
        yield Hit(option_place(subject, "disable_custom_all_reduce"), what, "the workers spin for ever after the CUDA graphs", fix, severity)
