"""The FlashInfer sampler is switched on.

## What it flags
`VLLM_USE_FLASHINFER_SAMPLER=1`.

## Why it hurts
It compiles at the first start and needs a matching nvcc and curand.h; on A40 it crashed a worker once, and its
throughput was the same.

## Example
    env: {VLLM_USE_FLASHINFER_SAMPLER: "1"}

## Use instead
    env: {VLLM_USE_FLASHINFER_SAMPLER: "0"}

## When to ignore
Where it was measured to win on your card and soaked.

## Source
Bootstrap notes (`unspecified launch failure` on A40); vllm#49497.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="ENG019", name="flashinfer-sampler-forced", severity=Severity.WARNING,
    traps=("flashinfer-sampler-fault", "curand-header", "no-nvcc", "flashinfer-nvcc-missing"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the sampler is forced on."""
    if environment(subject, "VLLM_USE_FLASHINFER_SAMPLER") == "1":
        place = environment_place(subject, "VLLM_USE_FLASHINFER_SAMPLER")
        why = "it is compiled at the first start, has crashed a worker, and gained nothing where it was measured"
        yield Hit(place, "the FlashInfer sampler is forced on", why, "set it to 0", edit=Edit("set", place, "0"))
