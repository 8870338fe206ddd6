"""A dense model of more than 15 GiB on one 24 GB card under WSL2 leaves no cache.

## What it flags
One GPU of at most 24 GB, a WSL2 host, and dense weights above 15 GiB: a warning, since a plan that does not fit is MEM001's error.

## Why it hurts
WSL2 holds 2.02 GiB of the card, the draft head 2.37 GiB. The best of many attempts left 150 MB of cache: less than
one prompt of a coding agent.

## Example
    model: qwen38-dense-awq      # 17.8 GiB
    hardware: rtx-4090-wsl2      # one card

## Use instead
    hardware: 2x-rtx-4090        # tensor parallel over two cards, or a mixture of experts with lighter weights

## When to ignore
When a start proves that the window is enough.

## Source
`l-wsl2-tax`; a logbook line that was closed.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe, vram_gib
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM009", name="dense-model-beside-wsl2-tax", severity=Severity.WARNING, traps=("wsl2-tax",))


LARGEST_WEIGHTS_GIB = 15.0  # 24 GiB less WSL2's 2.02, the draft head's 2.37, 2.8 of growth and a GiB of cache


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when all of it meets on one card."""
    plan = subject.plan
    small_single = plan.hardware.count == 1 and vram_gib(subject) <= 24.1 and plan.hardware.host == "wsl2"
    if small_single and not is_moe(subject) and plan.memory.weights_gib > LARGEST_WEIGHTS_GIB:
        yield Hit(
            subject.place("profile", "hardware"),
            f"{plan.memory.weights_gib:.1f} GiB of dense weights on one {vram_gib(subject):.0f} GiB card under WSL2",
            "WSL2 takes 2.02 GiB of the card; with 17.8 GiB of weights and a draft head 150 MB of cache was the best that was ever left",
            "use two cards, a native Linux host, or a lighter model",
        )
