"""A model that fits one card is split over cards without peer access.

## What it flags
Tensor parallel without peer access, where weights and one full window would fit one of the cards at the same share of
memory.

## Why it hurts
Two halves without peer access gave 0.17 tokens a second for each GB/s of bandwidth, one whole card 0.25.

## Example
    hardware: 2xa40          # for a model of 17 GB

## Use instead
    hardware: a40

## When to ignore
For many sessions: the second card's memory is cache for them.

## Source
A40 pair against one RTX 6000 Ada, 23 August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import vram_gib
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="HWR012", name="one-card-would-do", severity=Severity.INFO, traps=("tp-no-p2p-yield",))

# Room for graphs and activations, so that the advice is never wrong for lack of it.
GRAPHS_AND_ACTIVATIONS_GIB = 4.0


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when a single card would hold weights and one window."""
    ranks, memory = subject.plan.engine.tensor_parallel, subject.plan.memory
    if ranks > 1 and not subject.plan.hardware.peer_to_peer:
        needed = (memory.weights_gib + memory.needed_gib) * ranks
        if needed < vram_gib(subject) * memory.utilization - GRAPHS_AND_ACTIVATIONS_GIB:
            what = f"about {needed:.1f} GiB for weights and one window would fit one card of {vram_gib(subject):.0f} GiB"
            why = "split over cards without peer access, bandwidth yields a third less"
            yield Hit(subject.place("profile", "hardware"), what, why, "compare with one card, unless many sessions need the cache")
