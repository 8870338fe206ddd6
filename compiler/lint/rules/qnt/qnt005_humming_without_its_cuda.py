"""Humming kernels are chosen without the CUDA 13 packages that compile them.

## What it flags
`moe_backend` or `linear_backend` of `humming` where neither the profile's extras nor the image's packages bring
`humming-kernels[cu13]`.

## Why it hurts
The engine depends on humming without its extra. It compiles at the first use with whatever NVRTC, headers and
builtins it finds: `cuda_fp8.hpp: this declaration has no storage class`, or `failed to open libnvrtc-
builtins.so.13.0`.

## Example
    settings: {moe_backend: humming}
    container: {recipe: vllm-venv}

## Use instead
    settings: {moe_backend: marlin}      # within one per cent, and compiled already

## When to ignore
When the base image was proven to bring one coherent CUDA 13 tool chain.

## Source
Bootstrap v77 to v82; `nemotron-humming` for the equal speed.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="QNT005", name="humming-without-its-cuda", severity=Severity.ERROR,
    traps=("humming-nvrtc", "humming-a100", "humming-cuda-root", "humming-same", "humming-nesting", "nemotron-v76-recipe"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each setting that asks for humming."""
    brought = any("humming-kernels[cu13]" in package.requirement for package in subject.plan.image.packages)
    for name in ("moe_backend", "linear_backend"):
        if subject.setting(name) == "humming" and not brought:
            yield Hit(
                subject.setting_place(name),
                f"{name} humming without humming-kernels[cu13]",
                "it compiles in the pod with mismatched CUDA pieces, and the start fails",
                "set it to marlin (as fast), or add the release's humming extra under container.extras",
            )
