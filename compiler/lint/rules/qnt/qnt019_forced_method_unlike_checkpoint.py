"""The forced quantization method is not the checkpoint's.

## What it flags
A `quantization` setting of another family than the method in the model spec. A warning where the engine takes the
checkpoint's own method instead (modelopt's FP8 and NVFP4, AutoRound), and where the spec names no method but a scheme.

## Why it hurts
The engine refuses: `Quantization method specified in the model config does not match the quantization argument`. Where it
does not, the setting has no effect, and no line of the log says so.

## Example
    model: swift-qwen38-27b      # compressed-tensors
    settings: {quantization: awq}

## Use instead
Leave `quantization` unset: the engine reads it from the checkpoint.

## When to ignore
The warnings, where the engine was seen to take the method.

## Source
`_verify_quantization` and each method's `override_quantization_method` in 0.26 to 0.33; 0.27.1 asked with a compressed-tensors
and with a modelopt config.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import insists_on_method, text
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT019", name="forced-method-unlike-checkpoint", severity=Severity.ERROR, refusal=True)


FAMILIES = (
    {"awq", "awq_marlin", "auto_awq", "moe_wna16", "marlin"}, {"gptq", "gptq_marlin", "auto_gptq", "moe_wna16", "marlin"},
    {"modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8"}, {"inc", "auto-round", "auto_round"}, {"mxfp4", "gpt_oss_mxfp4"},
)  # fmt: skip
# The kernels of this library read any checkpoint.
READS_ALL = "humming"


# Methods that read a scheme, besides the two that read most of them.
OF_SCHEME = {
    "awq-int4": {"awq"}, "gptq-int4": {"gptq"}, "nvfp4": {"modelopt"}, "mxfp4": {"mxfp4", "gpt_oss_mxfp4"},
    "fp8": {"fp8", "modelopt", "fbgemm_fp8", "ptpc_fp8", "fp_quant"}, "bitsandbytes-nf4": {"bitsandbytes"},
}  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when no family holds both."""
    forced, own = text(subject, "quantization"), subject.specs.model.quantization.method
    scheme = subject.specs.model.quantization.scheme
    if forced in (None, READS_ALL):
        return
    place, fix = subject.setting_place("quantization"), "leave quantization unset"
    what = f"quantization {forced} for {subject.plan.model.slug}"
    if own is None:
        reads = OF_SCHEME.get(scheme, {forced}) | {"compressed-tensors", "quark"}
        if forced not in reads and not any(forced in family for family in FAMILIES if family & reads):
            why = "the engine refuses the pair, unless the checkpoint insists on its own method"
            yield Hit(place, f"{what}, whose weights are in {scheme}", why, fix, Severity.WARNING)
    elif forced != own and not any({forced, own} <= family for family in FAMILIES):
        if insists_on_method(subject):
            yield Hit(place, f"{what} has no effect", f"the engine takes the checkpoint's own method, {own}, without a word", fix, Severity.WARNING)
        else:
            yield Hit(place, f"{what}, whose config says {own}", "the engine refuses the pair", fix)
