"""Humming kernels are chosen without their own CUDA packages in the image.

## What it flags
`moe_backend` or `linear_backend` of `humming` where the profile's extras do not bring `humming-kernels[cu13]`.

## Why it hurts
Humming compiles at the first use, with the NVRTC, headers and builtins that it finds first: `cuda_fp8.hpp: this
declaration has no storage class`, or `failed to open libnvrtc-builtins.so.13.0`. The releases name the extra in their
requirements, but an image that mixes system and own packages still failed. Nothing is won: it is within one per cent
of Marlin.

## Example
    settings: {moe_backend: humming}
    container: {recipe: vllm-venv}

## Use instead
    settings: {moe_backend: marlin}      # compiled already

## When to ignore
When a start with it succeeded in this image.

## Source
Bootstrap v77 to v82; `nemotron-humming` for the equal speed; requirements of 0.26.0, 0.27.1 and 0.33.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="QNT005", name="humming-without-its-cuda", severity=Severity.WARNING,
    traps=("humming-nvrtc", "humming-a100", "humming-cuda-root", "humming-same", "humming-nesting", "nemotron-v76-recipe"),
)  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each setting that asks for humming."""
    brought = any("humming-kernels[cu13]" in package.requirement for package in subject.plan.image.packages)
    for name in ("moe_backend", "linear_backend"):
        if subject.setting(name) == "humming" and not brought:
            yield Hit(
                subject.setting_place(name),
                f"{name} humming without humming-kernels[cu13] among the image's packages",
                "it compiles in the pod with the CUDA pieces that it finds first, which failed, and is no faster than Marlin",
                "set it to marlin, or add the release's humming extra under container.extras",
            )
