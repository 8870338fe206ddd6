"""Peer access over PCIe is taken for granted on a rented host.

## What it flags
Tensor parallel over PCIe with `peer_to_peer: true` on a rented host, and NCCL left alone.

## Why it hurts
Where the host's IOMMU or ACS redirects peer traffic, the engine hangs after NCCL's initialisation, or the second start
does. It shows on the host only.

## Example
    interconnect: {kind: pcie, peer_to_peer: true}

## Use instead
    interconnect: {kind: pcie, peer_to_peer: false}

## When to ignore
On hosts where two starts in a row were seen to work.

## Source
vllm#33041 and vllm#9920.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.facts import environment, shares_layers
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="HWR013", name="peer-access-over-pcie-unproven", severity=Severity.INFO, traps=("nccl-p2p-iommu", "tp-acs-stall"))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when only the host can tell."""
    link = subject.specs.hardware.interconnect
    is_rented = subject.plan.hardware.host == "rented"
    if (
        shares_layers(subject)
        and is_rented
        and link.kind == "pcie"
        and link.peer_to_peer
        and environment(subject, "NCCL_P2P_DISABLE") != "1"
    ):
        what = "peer access over PCIe depends on the host that the pod lands on"
        why = "with IOMMU or ACS on, the engine hangs after NCCL's initialisation"
        yield Hit(
            subject.place("hardware", "interconnect"),
            what,
            why,
            'if it hangs, set NCCL_P2P_DISABLE: "1" and disable_custom_all_reduce: true',
        )
