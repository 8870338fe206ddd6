"""Stochastic rounding of states is asked for where it cannot run.

## What it flags
`enable_mamba_cache_stochastic_rounding` with Triton state kernels outside compute capability 10.x, or without a
float16 state.

## Why it hurts
The PTX instruction exists on data-center Blackwell only, and the engine passes its own check of that: the kernel fails to compile
when it first runs (on Ada: `Feature '.rs' not supported on .target 'sm_89'`). It rounds to float16 alone, and the configuration
refuses other states.

## Example
    hardware: rtx-6000-ada
    settings: {mamba_backend: triton, mamba_ssm_cache_dtype: float16}
    engine_args: {enable_mamba_cache_stochastic_rounding: true}

## Use instead
    settings: {mamba_backend: flashinfer, mamba_ssm_cache_dtype: float16}

## When to ignore
Never: the engine refuses.

## Source
`MambaConfig` and `VllmConfig` of 0.26 to 0.33, whose switch is set after the check of the card; Nemotron on Ada, August 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import sm
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT007", name="stochastic-rounding-refused", severity=Severity.ERROR, traps=("stochastic-triton-ada",), refusal=True)


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for the card, and one for the type of the state."""
    if not subject.setting("enable_mamba_cache_stochastic_rounding"):
        return
    place = subject.setting_place("enable_mamba_cache_stochastic_rounding")
    if str(subject.setting("mamba_backend") or "triton").lower() == "triton" and sm(subject) // 10 != 10:
        capability = subject.plan.hardware.compute_capability
        what = f"stochastic rounding with Triton state kernels on compute capability {capability}"
        yield Hit(place, what, "the instruction exists on 10.x only, and the kernel fails to compile when it first runs", "set mamba_backend to flashinfer, or drop it")
    if subject.setting("mamba_ssm_cache_dtype") != "float16":
        what = "stochastic rounding without a float16 state"
        yield Hit(place, what, "the engine refuses: it rounds to float16 only", "set mamba_ssm_cache_dtype to float16, or drop it")
