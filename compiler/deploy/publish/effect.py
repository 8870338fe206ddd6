"""What a running pod will do with a manifest: the same decision that the pod itself makes, made beforehand. Pure."""

from __future__ import annotations

import dataclasses
import enum

from pod.contract import Manifest


class Effect(enum.StrEnum):
    """What happens in a pod, the cheapest first."""

    NOTHING = "nothing"
    SETTINGS = "supervisor only"
    BRIDGE = "bridge reload"
    ENGINE = "engine restart"
    POD = "impossible in place"


@dataclasses.dataclass(frozen=True, slots=True)
class Outage:
    """How long the endpoint makes clients wait, in seconds, and how that is known."""

    seconds: float
    source: str


def effect_between(old: Manifest, new: Manifest, engine: str | None = None) -> Effect:
    """What a pod that runs `old` does with `new`. `engine` is the one of a swap set that it serves now."""
    before, after = old.bridge, new.bridge
    if old.pod != new.pod or (before.mode == "off") != (after.mode == "off") or (before.host, before.port) != (after.host, after.port):
        return Effect.POD
    swapped_in = engine if engine != old.engine.name else None
    if _served(old, swapped_in) != _served(new, swapped_in) or old.kv_store != new.kv_store:
        return Effect.ENGINE
    groups = old.changes(new)
    return Effect.BRIDGE if "bridge" in groups else Effect.SETTINGS if groups else Effect.NOTHING


def _served(manifest: Manifest, engine: str | None) -> object:
    """Name and launch of what serves under `manifest`: an engine that clients swapped in stays as long as it is in the set."""
    engines = [manifest.engine, *(manifest.swap.others if manifest.swap else ())]
    chosen = next((e for e in engines if e.name == engine), manifest.engine)
    return chosen.name, chosen.launch
