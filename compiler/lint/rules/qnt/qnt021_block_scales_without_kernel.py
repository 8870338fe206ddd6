"""FP8 weights with a scale for each block, on a card for which the release's DeepGEMM has no kernel.

## What it flags
A checkpoint with `quantization.block` on compute capability 12.x with vLLM 0.27, unless `VLLM_USE_DEEP_GEMM` is 0. Qwen3.5 and its
successors are left out: the engine itself leaves DeepGEMM aside for them on Blackwell.

## Why it hurts
The release chooses DeepGEMM for such matrices on 12.x too, and its build of that library has no kernel for it: workers die with
`Unknown SF transformation` when they have read the weights. 0.26.0 and 0.33.0 bring the kernels.

## Example
    hardware: rtx-pro-6000
    engine: vllm-0.27.1      # with a checkpoint whose config says weight_block_size: [128, 128]

## Use instead
    env: {VLLM_USE_DEEP_GEMM: "0"}

## When to ignore
Never on that release: the engine does not start.

## Source
vllm#51758, which saw 0.26.0 serve and 0.27.1 fail, and vllm#52732, which names the library's commit; the compiled library of the three
releases, which names sm120 in 0.26.0 and 0.33.0 and not once in 0.27.1; `support_deep_gemm` and `should_auto_disable_deep_gemm` of
0.27.1. When it came back nobody looked.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT021", name="block-scales-without-kernel", severity=Severity.ERROR, refusal=True)

SWITCH, OFF = "VLLM_USE_DEEP_GEMM", ("0", "false", "False")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the checkpoint on that card."""
    model = subject.specs.model
    if model.quantization.block is None or sm(subject) // 10 != 12 or environment(subject, SWITCH) in OFF:
        return
    if not model.architecture.model_type.startswith("qwen3_5"):
        block, card = " by ".join(map(str, model.quantization.block)), subject.plan.hardware.compute_capability
        yield Hit(
            subject.place("profile", "hardware"),
            f"scales for blocks of {block} weights on compute capability {card}",
            f"release {subject.plan.engine.release} gives them to DeepGEMM, which has no kernel for this card there, and dies while it loads",
            f'set {SWITCH} to "0", or take a release from 0.33 on',
        )
