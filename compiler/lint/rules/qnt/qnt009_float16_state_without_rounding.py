"""The recurrent state is kept in float16 by kernels that round it plainly.

## What it flags
`mamba_ssm_cache_dtype: float16` with Triton state kernels and no stochastic rounding.

## Why it hurts
The publisher prescribes float16 together with stochastic rounding: a state that is rounded the same way at every
token drifts over long contexts.

## Example
    settings: {mamba_backend: triton, mamba_ssm_cache_dtype: float16}

## Use instead
    settings: {mamba_backend: triton, mamba_ssm_cache_dtype: float32}      # or FlashInfer with float16

## When to ignore
When needles at the full window were found with it; cite them.

## Source
NVIDIA's command for Nemotron; `nemotron-ada-v79-fp16-solo`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import is_hybrid
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="QNT009", name="float16-state-without-rounding", severity=Severity.WARNING, traps=("float16-ssm-tradeoff",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when float16 stands alone."""
    triton = str(subject.setting("mamba_backend") or "triton").lower() == "triton"
    rounded = subject.setting("enable_mamba_cache_stochastic_rounding")
    if is_hybrid(subject) and subject.setting("mamba_ssm_cache_dtype") == "float16" and triton and not rounded:
        yield Hit(
            subject.setting_place("mamba_ssm_cache_dtype"),
            "a float16 state without stochastic rounding",
            "rounding errors add up in the state over long contexts",
            "set mamba_ssm_cache_dtype to float32, or mamba_backend to flashinfer",
        )
