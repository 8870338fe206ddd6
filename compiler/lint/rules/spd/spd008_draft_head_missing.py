"""MTP speculation is on, but the checkpoint ships no draft head that the engine loads.

## What it flags
MTP with a model spec that has no `mtp` section, counts 0 head tensors, or says `loads: false`.

## Why it hurts
Many quantized exports drop the head although their config declares it, and some keep a dense BF16 head that the
loader builds from the compressed config (vllm#58807). The start fails after the download.

## Example
    model: swift-27b             # mtp.loads: false
    speculation: {method: mtp, tokens: 3}

## Use instead
    speculation: {method: off}

## When to ignore
Never; when a later release loads the head, correct `mtp.loads`.

## Source
noonghunna/club-3090#859; vllm#58807; Swift-1.5 on two RTX 4090.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import speculation_method, speculation_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="SPD008", name="draft-head-missing", severity=Severity.ERROR, traps=("mtp-stripped", "mtp-loader-58807"), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when there is no head to load."""
    if speculation_method(subject) != "mtp":
        return
    mtp = subject.specs.model.mtp
    if mtp is None:
        what = "has no MTP head"
    elif mtp.tensors == 0:
        what = "declares an MTP head and ships none of its tensors"
    elif not mtp.loads:
        what = "has an MTP head that the engine does not load"
    else:
        return
    yield Hit(
        speculation_place(subject),
        f"{subject.plan.model.slug} {what}",
        (mtp.note if mtp and mtp.note else "the engine stops while loading, after the whole download"),
        "turn speculation off, or take a checkpoint with its head",
    )
