"""The allocator uses expandable segments.

## What it flags
`expandable_segments:True` in `PYTORCH_CUDA_ALLOC_CONF` or `PYTORCH_ALLOC_CONF`: an error where GPUs of a rented host share
layers, else a warning. KV connectors refuse it: KVC016.

## Why it hurts
Memory is then shared between processes by file descriptors, which a container without CAP_SYS_PTRACE forbids: `pidfd_getfd:
Operation not permitted`.

## Example
    env: {PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:True"}

## Use instead
Leave the variable unset.

## When to ignore
On an own machine whose container has CAP_SYS_PTRACE, with one GPU and no KV connector.

## Source
Deployment notes, four settings that cost an evening; vllm case kv-connector-expandable.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, environment_place
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="ENG014", name="expandable-segments", severity=Severity.ERROR, traps=("expandable-segments", "kv-connector-expandable"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when either spelling of the variable asks for it."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        value = (environment(subject, name) or "").replace(" ", "").lower()
        if "expandable_segments:true" in value:
            what = f"{name} asks for expandable segments"
            place = environment_place(subject, name)
            why = "a rented container lacks CAP_SYS_PTRACE, and processes that share memory die with pidfd_getfd"
            is_all = value == "expandable_segments:true"  # Other allocator settings beside it are for a person to keep or drop.
            shared = subject.plan.engine.tensor_parallel > 1 and subject.plan.hardware.host == "rented"
            severity = None if shared else Severity.WARNING
            yield Hit(place, what, why, "remove it", severity, edit=Edit("remove", place) if is_all else None)
