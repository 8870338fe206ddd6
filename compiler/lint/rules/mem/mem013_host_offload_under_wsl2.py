"""Host memory is used for offload under WSL2, which cannot pin it.

## What it flags
A WSL2 host without pinned memory, with `kv_offloading_size` or `cpu_offload_gb`.

## Why it hurts
Unpinned copies are slow, and unified addressing does not work at all: the engine then stops with `UVA is not
available`.

## Example
    hardware: rtx-4090-wsl2
    settings:
      kv_offloading_size: 16

## Use instead
Native Linux, or no offload. From release 0.29 on WSL2 needs the engine's pinned-memory variable.

## When to ignore
When the host spec states that pinned memory works there (`host.pinned_memory: true`); the rule is then silent.

## Source
vllm#49011; `l-v029-agg16` for the release that needs the variable.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="MEM013", name="host-offload-under-wsl2", severity=Severity.WARNING, traps=("wsl-pin-memory", "uva-wall"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each offload that needs pinned memory."""
    host = subject.specs.hardware.host
    if host.kind != "wsl2" or host.pinned_memory:
        return
    for name in ("kv_offloading_size", "cpu_offload_gb"):
        if subject.setting(name):
            yield Hit(
                subject.setting_place(name),
                f"{name} under WSL2, where host memory is not pinned",
                "copies are slow, and unified addressing fails: `UVA is not available`",
                "run on native Linux, or without offload",
            )
