"""CUDA is said to report more memory than the card has.

## What it flags
A `cuda_total` above `vram_mib`.

## Why it hurts
The memory plan would promise cache that does not exist. CUDA reports less than nvidia-smi, never more.

## Example
    gpu: {vram_mib: 46068, cuda_total: 51.5GB}

## Use instead
    gpu: {vram_mib: 46068, cuda_total: 47.6GB}

## When to ignore
Never: one of the two was read wrong, often GB taken for GiB.

## Source
Definition of the two figures.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.units import MIB

RULE = Rule(code="HWR011", name="cuda-memory-above-card", severity=Severity.ERROR)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the two contradict each other."""
    gpu = subject.specs.hardware.gpu
    if gpu.cuda_total is not None and gpu.cuda_total > gpu.vram_mib * MIB:
        what = f"cuda_total is {gpu.cuda_total / MIB:,.0f} MiB on a card of {gpu.vram_mib:,} MiB"
        yield Hit(
            subject.place("hardware", "gpu", "cuda_total"),
            what,
            "the memory plan promises what does not exist",
            "read both again on the card",
        )
