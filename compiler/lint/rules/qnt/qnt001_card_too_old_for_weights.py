"""The card's compute capability is below what the checkpoint's quantization needs.

## What it flags
A compute capability below the floor of the checkpoint's own method or of one that is forced, from the release's table (errors);
below the model spec's `min_compute_capability` alone (a warning).

## Why it hurts
Below the method's floor no kernel exists, and the engine refuses: `The quantization method ... is not supported for the current
GPU`. Between the two it falls back to something for which the checkpoint was not made: NVFP4 for W4A4 is multiplied by Marlin as
weights of 4 and activations of 16 bit.

## Example
    hardware: rtx-6000-ada            # 8.9
    engine_args: {quantization: fp_quant}      # from 10.0 on

## Use instead
Another checkpoint of the same model (weight-only NVFP4 or AWQ run from 8.0 on), or another card.

## When to ignore
The warning, when speed and answers were measured on such a card; cite it.

## Source
The floors in each release's snapshot (in 0.27.1 fp_quant 100, mxfp8 80, AWQ 75); vllm#43507; 0.27.1 asked with a W4A4 NVFP4
checkpoint on a card of 8.9: accepted, with MarlinNvFp4LinearKernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import insists_on_method, on_gpu, sm, version
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT001", name="card-too-old-for-weights", severity=Severity.ERROR, traps=("w4a4-needs-blackwell", "fp-quant-min-sm"))


FIX = "take a checkpoint in another format, or a newer card"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the checkpoint, and one for a forced method."""
    if not on_gpu(subject):
        return
    quantization, floors = subject.specs.model.quantization, subject.specs.flags.min_capability
    floor, have = quantization.min_compute_capability, subject.plan.hardware.compute_capability
    method = "modelopt_fp4" if (quantization.method, quantization.scheme) == ("modelopt", "nvfp4") else quantization.method
    own = floors.get(method or "", 0)
    if sm(subject) < own:
        what = f"{subject.plan.model.slug} is quantized by {method}, which needs compute capability {own / 10:g}, and the card has {have}"
        yield Hit(subject.place("profile", "model"), what, "the engine refuses the method on this card", FIX)
    elif subject.capability < version(floor):
        what = f"{subject.plan.model.slug} was made for compute capability {floor}, and {subject.plan.hardware.name} has {have}"
        why = "where the engine has a fallback the weights are computed otherwise than they were made for; elsewhere it refuses"
        yield Hit(subject.place("profile", "model"), what, why, FIX, Severity.WARNING)
    forced = subject.setting("quantization")
    lowest = floors.get(str(forced), 0)
    if sm(subject) < lowest and forced != quantization.method and not insists_on_method(subject):
        yield Hit(
            subject.setting_place("quantization"),
            f"quantization {forced} needs compute capability {lowest / 10:g}, and the card has {have}",
            "the engine refuses the method on this card",
            "leave quantization unset",
        )
