"""GPUs without peer access are to share layers, and NCCL is not told.

## What it flags
Tensor parallel above 1 on a rented host, no peer-to-peer access, and no `NCCL_P2P_DISABLE=1`; a warning on a Linux host
of one's own over PCIe. GeForce cards are left out: their driver says itself that there is no peer access.

## Why it hurts
The first collective after the CUDA graphs spins for ever: both GPUs at 100 %, `No available shared memory broadcast
block` every 60 s, and nothing in the log that says NCCL.

## Example
    interconnect: {kind: pcie, peer_to_peer: false}

## Use instead
    env: {NCCL_P2P_DISABLE: "1", NCCL_IB_DISABLE: "1"}

## When to ignore
Never.

## Source
Deployment notes, two A40 on two NUMA nodes; vllm#33041.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, on_gpu
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="HWR001", name="no-peer-access-unknown-to-nccl", severity=Severity.ERROR, traps=("nccl-p2p-spin", "nccl-init-hang"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when ranks would try to reach each other directly."""
    hardware = subject.plan.hardware
    owned = hardware.host == "owned-linux" and subject.specs.hardware.interconnect.kind == "pcie"
    tries_peers = (hardware.host == "rented" or owned) and "GeForce" not in hardware.name and environment(subject, "NCCL_P2P_DISABLE") != "1"
    if subject.plan.engine.tensor_parallel > 1 and on_gpu(subject) and not hardware.peer_to_peer and tries_peers:
        what = f"{hardware.count} GPUs without peer access share layers, and NCCL_P2P_DISABLE is not 1"
        why = "the first collective after the CUDA graphs spins for ever, and no log line says why"
        yield Hit(
            subject.place("hardware", "interconnect", "peer_to_peer"), what, why, 'set env NCCL_P2P_DISABLE: "1" in the hardware spec',
            severity=Severity.WARNING if owned else None,
        )
