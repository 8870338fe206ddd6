"""The chosen kernels for experts do not support these weights on this card.

## What it flags
`moe_backend: marlin` with unquantized experts; `flashinfer_cutlass`, `flashinfer_trtllm` or `flashinfer_cutedsl` for
NVFP4 experts below compute capability 10.0; a name that the release does not know.

## Why it hurts
The engine refuses while it builds the first layer with experts, after the download: `moe_backend='marlin' is not
supported for unquantized MoE`.

## Example
    model: qwen36-35b-a3b-bf16
    settings: {moe_backend: marlin}

## Use instead
Leave `moe_backend` unset: the engine takes a kernel that exists.

## When to ignore
Never: the engine refuses.

## Source
`engine-moe-marlin-unquantized`, `engine-moe-marlin-nvfp4-ada`, `engine-moe-flashinfer-cutlass-nvfp4-ada`; the
release's registry.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_moe, sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT004", name="expert-kernels-refused", severity=Severity.ERROR, refusal=True)


WIDE = frozenset({"bf16", "fp16", "fp32"})


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each reason why the backend is refused."""
    backend, quantization = subject.setting("moe_backend"), subject.specs.model.quantization
    if backend in (None, "auto") or not is_moe(subject):
        return
    stored = {part.weights for part in quantization.parts if part.part == "routed-experts"}
    unquantized = (bool(stored) and stored <= WIDE) or (not stored and quantization.scheme == "none")
    nvfp4 = "nvfp4" in stored or (not stored and quantization.scheme == "nvfp4")
    capability = subject.plan.hardware.compute_capability
    reasons = (
        (not subject.specs.flags.knows("moe_backends", str(backend)), f"release {subject.plan.engine.release} has no such backend"),
        (backend == "marlin" and unquantized, "Marlin multiplies quantized weights only"),
        (str(backend).startswith("flashinfer") and nvfp4 and sm(subject) < 100, f"it has no NVFP4 kernel on {capability}"),
    )
    for applies, why in reasons:
        if applies:
            what = f"moe_backend {backend} for the experts of {subject.plan.model.slug}"
            yield Hit(subject.setting_place("moe_backend"), what, f"{why}, and the engine refuses", "leave moe_backend unset")
