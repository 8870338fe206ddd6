"""Options of the state kernels contradict each other or the model.

## What it flags
`use_replayssm` with another model than Nemotron-H, with `mamba_cache_mode: all`, with speculation, without Triton
state kernels or with a KV connector; `mamba_ssu_algorithm` without FlashInfer state kernels.

## Why it hurts
The engine's configuration refuses each of them in words.

## Example
    model: nemotron-nvfp4
    settings: {mamba_backend: flashinfer}
    engine_args: {use_replayssm: true}

## Use instead
    settings: {mamba_backend: triton, mamba_cache_mode: align}
    engine_args: {use_replayssm: true}

## When to ignore
Never: the engine refuses.

## Source
0.27.1's `validate_replayssm` and `validate_ssu_algorithm`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import mapping, speculates, speculation_method
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT008", name="state-kernel-options-refused", severity=Severity.ERROR, traps=("replayssm",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each refusal."""
    backend = str(subject.setting("mamba_backend") or "triton").lower()
    if subject.setting("use_replayssm"):
        obstacles = (
            (not subject.plan.model.architecture.startswith("NemotronH"), "the model is not a Nemotron-H"),
            (subject.setting("mamba_cache_mode") == "all", "mamba_cache_mode is all"),
            (speculates(subject), f"{speculation_method(subject)} speculation is on"),
            (backend != "triton", f"mamba_backend is {backend}"),
            (bool(mapping(subject, "kv_transfer_config")), "a KV connector is used"),
        )
        for applies, why in obstacles:
            if applies:
                place = subject.setting_place("use_replayssm")
                yield Hit(place, f"use_replayssm cannot be used: {why}", "the engine refuses", "drop use_replayssm, or change that")
    if subject.setting("mamba_ssu_algorithm") and backend != "flashinfer":
        place = subject.setting_place("mamba_ssu_algorithm")
        what, fix = f"mamba_ssu_algorithm with {backend} state kernels", "set mamba_backend to flashinfer, or drop it"
        yield Hit(place, what, "the engine refuses: only FlashInfer's kernels take it", fix)
