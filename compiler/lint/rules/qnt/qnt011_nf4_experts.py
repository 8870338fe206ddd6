"""A BitsAndBytes NF4 checkpoint is one that this release cannot read, or a mixture of experts that it reads slowly.

## What it flags
Scheme `bitsandbytes-nf4` on a release whose registry has no such method (an error), and on a model with experts elsewhere (a
warning).

## Why it hurts
Releases from 0.33 on refuse the checkpoint: `Unknown quantization method`. Earlier ones have no fused expert kernel for it: all
experts of a layer are expanded to 16 bit in every step, which takes memory and time that the plan does not see.

## Example
    engine: vllm-0.33.0
    model: some-moe-nf4

## Use instead
An AWQ, FP8 or NVFP4 checkpoint of the same model.

## When to ignore
The warning, when the speed was measured and is enough.

## Source
`BitsAndBytesMoEMethod` of 0.26 and 0.27.1; the registries of the flag snapshots, of which 0.33's lacks the method. A logbook that
rejected the format in 2026 named no release.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.snapshots import weight

RULE = Rule(code="QNT011", name="nf4-experts", severity=Severity.WARNING, traps=("bnb-marlin",))


FIX = "take an AWQ, FP8 or NVFP4 checkpoint"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for a release without the method, else one for experts."""
    if subject.specs.model.quantization.scheme != "bitsandbytes-nf4":
        return
    place, slug, flags = subject.place("profile", "model"), subject.plan.model.slug, subject.specs.flags
    if not flags.knows("quantization_methods", "bitsandbytes"):
        what = f"{slug} is in NF4, and vLLM {flags.release} has no BitsAndBytes"
        yield Hit(place, what, "the engine refuses the checkpoint", FIX, weight(subject) or Severity.ERROR)
    elif is_moe(subject):
        what, why = f"{slug} is a mixture of experts in NF4", "its experts are expanded to 16 bit in every step: slow, and memory that the plan does not see"
        yield Hit(place, what, why, FIX)
