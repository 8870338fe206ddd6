"""All cases, by lane."""

from __future__ import annotations

from typing import Any

from tests.faults import processes
from tests.faults.campaign import Group


def toy_groups() -> list[Group[Any]]:
    """What needs no real engine."""
    return [*processes.groups()]


def real_groups() -> list[Group[Any]]:
    """What a real vLLM on the CPU plays."""
    return []


def side_groups() -> list[Group[Any]]:
    """What a real engine plays in the side lane."""
    return []
