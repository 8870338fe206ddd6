"""The engine needs pinned memory, and WSL2 does not give it unasked.

## What it flags
A WSL2 host from engine release 0.29 on without `VLLM_WSL2_ENABLE_PIN_MEMORY=1`.

## Why it hurts
From 0.29 on the engine keeps buffers in unified addressing and fails: `UvaBuffer ... UVA is not available`. It looks
like a wall and is a switch.

## Example
    host: {kind: wsl2, pinned_memory: false}

## Use instead
    env: {VLLM_WSL2_ENABLE_PIN_MEMORY: "1"}

## When to ignore
Never from 0.29 on.

## Source
Self-hosting logbook: 0.29.0 rejected on 9 September, accepted on 11 September 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, older
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="HWR010", name="wsl2-without-pinned-memory", severity=Severity.ERROR, traps=("uva-wall",))

VARIABLE = "VLLM_WSL2_ENABLE_PIN_MEMORY"


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the variable is missing."""
    is_wsl2 = subject.plan.hardware.host == "wsl2"
    if is_wsl2 and not older(subject, 0, 29) and environment(subject, VARIABLE) != "1":
        what = f"vLLM {subject.plan.engine.release} on WSL2 without pinned memory"
        yield Hit(subject.place("hardware", "host", "kind"), what, "it fails at start with UvaBuffer", f'set env {VARIABLE}: "1"')
