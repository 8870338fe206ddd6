"""CUDA graphs are switched off, or in a mode that loses.

## What it flags
`enforce_eager: true` on a GPU, or a CUDA graph mode of `NONE` or `FULL`.

## Why it hurts
Eager mode gave 12 instead of 45 tokens a second. Full graphs alone gave 853 instead of 910 at eight sessions.

## Example
    settings: {enforce_eager: true}

## Use instead
    settings: {max_num_seqs: 32}      # fewer graphs, if memory for them is what was missing

## When to ignore
While looking for a fault in a kernel, or where graph capture cannot fit beside the weights.

## Source
`l-enforce-eager`, `nemotron-pro6000-graphs-full-agg8`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import cudagraph_mode, on_gpu
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT012", name="graphs-given-away", severity=Severity.WARNING, traps=("enforce-eager", "full-graphs-loses"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for eager mode, and one for a losing graph mode."""
    if not on_gpu(subject):
        return
    mode = cudagraph_mode(subject)
    if subject.setting("enforce_eager") or mode == "NONE":
        place = subject.setting_place("enforce_eager" if subject.setting("enforce_eager") else "compilation_config")
        yield Hit(place, "CUDA graphs are off", "decoding was almost four times slower", "leave graphs on")
    elif mode == "FULL":
        place = subject.setting_place("cudagraph_mode" if subject.setting("cudagraph_mode") else "compilation_config")
        yield Hit(place, "CUDA graphs are full only", "853 instead of 910 tokens a second were measured", "leave the mode unset")
