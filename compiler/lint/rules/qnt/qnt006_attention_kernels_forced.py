"""The attention backend is forced to one that loses on this card.

## What it flags
`attention_backend: TRITON_ATTN` on a GPU (KVC001 holds where it does not even start), and any forced backend that the
release does not know (an error).

## Why it hurts
On a Blackwell card Triton attention read prompts 32 per cent more slowly than the backend that the engine takes by
itself.

## Example
    hardware: rtx-pro-6000
    settings: {attention_backend: TRITON_ATTN}

## Use instead
Leave `attention_backend` unset.

## When to ignore
When a fault of the default backend is being circumvented; name it in the reason.

## Source
`nemotron-pro6000-triton-attn-prefill` against `nemotron-pro6000-ref-prefill`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import on_gpu
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT006", name="attention-kernels-forced", severity=Severity.WARNING, traps=("triton-attn",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for Triton, and one for an unknown name."""
    backend = subject.setting("attention_backend")
    if backend is None or not on_gpu(subject):
        return
    place, fix = subject.setting_place("attention_backend"), "leave attention_backend unset"
    if not subject.specs.flags.knows("attention_backends", str(backend)):
        what = f"release {subject.plan.engine.release} has no attention backend {backend}"
        yield Hit(place, what, "the engine refuses the name", fix, severity=Severity.ERROR)
    elif backend == "TRITON_ATTN":
        yield Hit(place, "attention is forced to Triton", "prompts were read 32 per cent more slowly than with the engine's choice", fix)
