"""More sequences may decode at once than the cache has state blocks.

## What it flags
A hybrid model (Gated DeltaNet, Mamba-2, Kimi Delta) whose `max_num_seqs` exceeds the planned number of cache blocks
while full CUDA graphs are captured. A warning when it exceeds only the low estimate.

## Why it hurts
Every decoding sequence holds a state block. The engine compares the two after sizing its cache and exits:
`max_num_seqs (1024) exceeds available Mamba cache blocks (969)`.

## Example
    settings:
      max_num_seqs: 1024          # the engine's default on large cards

## Use instead
    settings:
      max_num_seqs: 64

## When to ignore
Never for the error. The warning, when this configuration has started on this card.

## Source
vllm#49064; NVIDIA-AI-Blueprints/retail-shopping-assistant#95; the check stands in 0.27.1's compilation config.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import captures_graphs, cudagraph_mode, is_hybrid
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="MEM003", name="more-sequences-than-state-blocks", severity=Severity.ERROR, refusal=True,
    traps=("mamba-seqs-over-blocks", "mamba-seqs-lora", "mamba-seqs-nim"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the sequences exceed the blocks at the high (error) or low (warning) estimate."""
    plan = subject.plan
    blocks = plan.memory.num_blocks
    graphs_are_full = captures_graphs(subject) and cudagraph_mode(subject) != "PIECEWISE"
    if not is_hybrid(subject) or not graphs_are_full or plan.engine.max_num_seqs <= blocks.low:
        return
    certain = plan.engine.max_num_seqs > blocks.high
    yield Hit(
        subject.setting_place("max_num_seqs"),
        f"max_num_seqs {plan.engine.max_num_seqs:,} exceeds the state blocks: {blocks.low:,.0f} to {blocks.high:,.0f} are planned",
        "each decoding sequence needs a state block, and the engine refuses to capture full graphs for more",
        f"set max_num_seqs to {max(1, int(blocks.low)):,} or less",
        severity=Severity.ERROR if certain else Severity.WARNING,
    )
