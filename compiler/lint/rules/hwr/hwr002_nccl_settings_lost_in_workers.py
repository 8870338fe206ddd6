"""NCCL settings stay in an environment that workers do not get.

## What it flags
GPUs that share layers without peer access, and a `~/.nccl.conf` that does not repeat the settings.

## Why it hurts
The variables were found in the server and not in `/proc/<worker>/environ`; NCCL reads the file in every process.

## Example
    env: {NCCL_P2P_DISABLE: "1"}

## Use instead
    nccl_conf: true
    env: {NCCL_P2P_DISABLE: "1"}

## When to ignore
Never.

## Source
Deployment notes, read on the A40 pair.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Edit, Severity
from compiler.lint.facts import environment, shares_layers
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="HWR002", name="nccl-settings-lost-in-workers", severity=Severity.ERROR, traps=("nccl-env-not-in-workers",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when the variable is set and the file lacks it."""
    in_file = {variable.name for variable in subject.plan.hardware.nccl_conf}
    is_set = environment(subject, "NCCL_P2P_DISABLE") == "1"
    if shares_layers(subject) and not subject.plan.hardware.peer_to_peer and is_set and "NCCL_P2P_DISABLE" not in in_file:
        what = "NCCL_P2P_DISABLE is not written to ~/.nccl.conf"
        place = subject.place("hardware", "nccl_conf")
        why = "worker processes do not inherit it, and the pair hangs"
        yield Hit(place, what, why, "set nccl_conf: true", edit=Edit("set", place, True))
