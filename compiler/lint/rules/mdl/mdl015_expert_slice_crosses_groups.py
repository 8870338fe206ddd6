"""The slice of an expert that each GPU gets cuts through a group of its quantization scales.

## What it flags
Experts in INT4 or FP8 whose inner width, divided by the tensor parallel size, is no multiple of 128, without expert
parallelism. Checkpoints with groups of 32 or scales per channel pass; the model spec does not tell them apart.

## Why it hurts
Where scales cover 128 weights the engine refuses while it builds the experts: `The output_size of gate's and up's
weight = 192 is not divisible by weight quantization block_n = 128`, after the whole download.

## Example
    model: a-moe-with-768-wide-experts-in-fp8
    hardware: four-cards         # 768 / 4 = 192

## Use instead
    settings: {enable_expert_parallel: true}      # or two GPUs: 384

## When to ignore
When the checkpoint's groups divide the slice (group_size 32, or per channel).

## Source
0.27.1 asked with 192-wide FP8 and INT4 experts: both are refused in words.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MDL015", name="expert-slice-crosses-groups", severity=Severity.WARNING)


GROUP = 128
GROUPED = ("awq-int4", "gptq-int4", "fp8")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when slices of experts are no multiple of a group."""
    # Without expert parallelism every expert is cut over all ranks of all replicas.
    architecture, shares = subject.specs.model.architecture, subject.plan.engine.tensor_parallel * subject.plan.engine.data_parallel
    sliced = is_moe(subject) and not subject.setting("enable_expert_parallel") and shares > 0
    grouped = subject.specs.model.quantization.scheme in GROUPED
    if sliced and grouped and architecture.moe_intermediate % (GROUP * shares):
        width = architecture.moe_intermediate / shares
        yield Hit(
            subject.setting_place("tensor_parallel_size"),
            f"experts of {subject.plan.model.slug} are {width:g} wide on each of {shares} GPU{'s' if shares > 1 else ''}",
            f"scales that cover {GROUP} weights would be cut, and the engine refuses after the download",
            "turn enable_expert_parallel on, or use fewer GPUs for each layer",
        )
