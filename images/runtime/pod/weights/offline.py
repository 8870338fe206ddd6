"""May this engine be kept from asking the Hub? One decision for each engine of a swap set, from what is really on disk.

A start without the Hub is some twenty seconds shorter and outlives a Hub that is down. But an engine that must not ask and lacks
one file fails with `Invalid repository ID`, and a value that another engine's start has left in the environment does the
same: so the decision is made anew for every start, for exactly the repositories of that engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from pod.weights.presence import Presence

VARIABLE = "HF_HUB_OFFLINE"
LEVER = "VL_HFOFFLINE"


@dataclasses.dataclass(frozen=True)
class Offline:
    """The decision and, as a sentence for the journal, why."""

    is_offline: bool
    reason: str


def offline(presences: Sequence[Presence], lever: str | None = None) -> Offline:
    """Offline only when every repository of the engine is whole. `lever` is VL_HFOFFLINE: `on`, `off`, or `auto` for this rule."""
    if lever in ("on", "off"):
        return Offline(lever == "on", f"the Hub is {'not ' if lever == 'on' else ''}asked: {LEVER}={lever}")
    for found in presences:
        if not found.whole:
            return Offline(False, f"the Hub is asked: {found.repo} {found.problem}")
    if not presences:
        return Offline(True, "the Hub is not asked: the engine opens nothing that comes from there")
    names = ", ".join(found.repo for found in presences)
    return Offline(True, f"the Hub is not asked: {names} {'is' if len(presences) == 1 else 'are'} whole on disk")


def engine_env(env: Mapping[str, str], decision: Offline) -> dict[str, str]:
    """`env` for an engine's start: the variable as decided, whatever a former start has left in it."""
    kept = {name: value for name, value in env.items() if name not in (VARIABLE, "TRANSFORMERS_OFFLINE")}
    return {**kept, VARIABLE: "1"} if decision.is_offline else kept
