"""Adapters are switched on, and the chosen expert kernels have no place for them.

## What it flags
`enable_lora` with a `moe_backend` other than `auto`, `triton`, `triton_unfused`, `batched_triton`, `marlin`, `flashinfer_trtllm` and
`emulation`: an error for quantized experts, a warning for others and for a model that no spec describes.

## Why it hurts
The engine asks each expert kernel whether it takes adapters, and ends when the named one does not. For experts in 16 bits it
takes other kernels than the ones that were asked for, without a word.

## Example
    settings: {moe_backend: flashinfer_cutlass}
    engine_args: {enable_lora: true}

## Use instead
    engine_args: {enable_lora: true}      # the engine takes kernels with adapters

## When to ignore
Never, where the weights are quantized.

## Source
`LoRAExpertsMixin`, the expert kernels that have it, and `is_supported_config` in 0.26.0, 0.27.1 and 0.33.0; vllm#51001.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT020", name="adapters-beside-expert-kernels", severity=Severity.ERROR)

WITH_ADAPTERS = frozenset({"auto", "triton", "triton_unfused", "batched_triton", "marlin", "flashinfer_trtllm", "emulation"})


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the kernels were chosen by name and take no adapters."""
    backend = subject.setting("moe_backend")
    if backend is None or subject.setting("enable_lora") is not True or backend in WITH_ADAPTERS:
        return
    if subject.knows_model and not is_moe(subject):
        return
    quantized = subject.knows_model and subject.specs.model.quantization.scheme != "none"
    yield Hit(
        subject.setting_place("moe_backend"),
        f"moe_backend {backend} with enable_lora: these kernels take no adapters",
        "the engine refuses them for quantized experts, and takes others for experts in 16 bits",
        "leave moe_backend unset, or set it to triton or marlin",
        None if quantized else Severity.WARNING,
    )
