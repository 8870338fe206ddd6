"""The model's heads or inner widths are not divisible by the number of GPUs that share a layer.

## What it flags
Attention heads or another inner width of the model spec that `tensor_parallel_size` does not divide. KV heads below
that number are copied, and pass.

## Why it hurts
The engine refuses: `Total number of attention heads must be divisible by tensor parallel size`; other widths stop
while the layers are built.

## Example
    hardware: three-cards
    model: qwen3-coder-next      # 8192 is not divisible by 3

## Use instead
Two or four GPUs, or data parallel for the rest.

## When to ignore
Never: the engine refuses.

## Source
vllm#2652; `l-qwen3-coder-next`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL007", name="width-not-divisible", severity=Severity.ERROR, traps=("tp3-not-divisible", "tp-heads"), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the widths that leave a remainder."""
    architecture, shares = subject.specs.model.architecture, subject.plan.engine.tensor_parallel
    widths = [w for w in (architecture.attention_heads, *architecture.indivisible) if w is not None and w % shares]
    if shares > 1 and widths:
        heads = architecture.attention_heads in widths
        yield Hit(
            subject.setting_place("tensor_parallel_size"),
            f"{', '.join(str(w) for w in widths)} of {subject.plan.model.slug} cannot be divided by {shares}",
            "attention heads are split over the GPUs, and the engine refuses" if heads else "the engine stops while it builds the layers",
            "choose a tensor parallel size that divides all of them",
        )
