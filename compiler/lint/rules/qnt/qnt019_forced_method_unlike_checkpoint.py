"""The forced quantization method is not the checkpoint's.

## What it flags
A `quantization` setting of another family than the method in the model spec, or, where the spec names none, than its
scheme.

## Why it hurts
The engine refuses: `Quantization method specified in the model config does not match the quantization argument`.

## Example
    model: ornith-nvfp4          # modelopt
    settings: {quantization: awq}

## Use instead
Leave `quantization` unset: the engine reads it from the checkpoint.

## When to ignore
Never: the engine refuses.

## Source
0.27.1's `_verify_quantization`, asked with an AWQ config.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import text
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT019", name="forced-method-unlike-checkpoint", severity=Severity.ERROR, refusal=True)


FAMILIES = (
    {"awq", "awq_marlin", "auto_awq", "moe_wna16"}, {"gptq", "gptq_marlin", "auto_gptq", "moe_wna16"},
    {"modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8"}, {"inc", "auto-round", "auto_round"},
)  # fmt: skip


# Methods that read a scheme, besides the two that read most of them.
OF_SCHEME = {
    "awq-int4": {"awq"}, "gptq-int4": {"gptq"}, "nvfp4": {"modelopt"}, "mxfp4": {"mxfp4", "gpt_oss_mxfp4"},
    "fp8": {"fp8", "modelopt", "fbgemm_fp8", "ptpc_fp8", "fp_quant"}, "bitsandbytes-nf4": {"bitsandbytes"},
}  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no family holds both."""
    forced, own = text(subject, "quantization"), subject.specs.model.quantization.method
    scheme = subject.specs.model.quantization.scheme
    if own is None and forced is not None and not any(forced in family for family in FAMILIES if family & OF_SCHEME.get(scheme, {forced})):
        own = f"weights in {scheme}" if forced not in OF_SCHEME.get(scheme, {forced}) | {"compressed-tensors", "quark"} else forced
    if forced is None or own is None or forced == own or any({forced, own} <= family for family in FAMILIES):
        return
    yield Hit(
        subject.setting_place("quantization"),
        f"quantization {forced} for {subject.plan.model.slug}, whose config says {own}",
        "the engine refuses the pair",
        "leave quantization unset",
    )
