"""Workers are bound to NUMA nodes inside a container.

## What it flags
`numa_bind`, with or without its nodes.

## Why it hurts
A container hides the topology, so without nodes it is not detected; memory cannot be bound without SYS_NICE, only
processors are; and on the A40 pair it changed nothing.

## Example
    engine_args: {numa_bind: true}

## Use instead
Leave it out.

## When to ignore
To repeat the measurement on other hosts, with `numa_bind_nodes: [0, 1]` and numactl in the image.

## Source
A40 pair, v43d against v43b.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import option_place

RULE = Rule(code="HWR007", name="numa-binding-in-container", severity=Severity.INFO, traps=("sys-nice-membind", "numa-auto-fails"))


def check(subject: Subject) -> Iterator[Hit]:
    """A warning without nodes, else an info."""
    if subject.setting("numa_bind"):
        nodes = subject.setting("numa_bind_nodes")
        what = "workers are bound to NUMA nodes" if nodes else "workers are bound to NUMA nodes that nobody named"
        why = (
            "only processors can be bound in a container, and it gained nothing"
            if nodes
            else "a container hides the topology, and it is not detected"
        )
        fix = "remove numa_bind" if nodes else "remove numa_bind, or add numa_bind_nodes: [0, 1]"
        yield Hit(option_place(subject, "numa_bind"), what, why, fix, severity=None if nodes else Severity.WARNING)
