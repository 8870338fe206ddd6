"""All cases, by lane."""

from __future__ import annotations

from typing import Any

from tests.faults import bad_input, disks, processes, publications, real, the_hub
from tests.faults.campaign import Group


def toy_lanes() -> list[list[Group[Any]]]:
    """What needs no real engine, in lanes that take about as long."""
    return [processes.groups(), [*the_hub.groups(), *publications.groups(), *disks.groups(), *bad_input.groups()]]


def real_groups() -> list[Group[Any]]:
    """What a real vLLM on the CPU plays."""
    return real.groups()


def side_groups() -> list[Group[Any]]:
    """What a real engine plays in the side lane."""
    return real.wedges()


def every_group() -> list[Group[Any]]:
    """All of them."""
    return [*real_groups(), *side_groups(), *(group for lane in toy_lanes() for group in lane)]
