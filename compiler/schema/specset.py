"""All specs that one profile refers to, loaded and typed, with the places where each value was written."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

from compiler.diagnostics import Place, Route
from compiler.schema.engine import EngineSpec
from compiler.schema.evidence import Measurement
from compiler.schema.flags import FlagTable
from compiler.schema.hardware import HardwareSpec
from compiler.schema.lock import LockSpec
from compiler.schema.model import ModelSpec
from compiler.schema.profile import ProfileSpec

SpecKind: TypeAlias = Literal["profile", "model", "hardware", "engine", "lock"]


@dataclasses.dataclass(frozen=True, slots=True)
class SpecSet:
    """One profile (its `extends` already merged) with the model, hardware, engine, flags and evidence that it names.

    `origins` tells, for a route in the merged profile, which file wrote it when that was not the profile itself.
    `engine_lock` is the text of the release's constraints lock, None when it has none.
    """

    name: str
    profile: ProfileSpec
    model: ModelSpec
    hardware: HardwareSpec
    engine: EngineSpec
    flags: FlagTable
    lock: LockSpec
    swap: tuple[SpecSet, ...]
    evidence: dict[str, Measurement]
    paths: dict[SpecKind, str]
    origins: dict[Route, str]
    inputs: tuple[tuple[str, str], ...]
    engine_lock: bytes | None

    def place(self, kind: SpecKind, *route: str | int) -> Place:
        """Where `route` of the spec of that kind was written."""
        if kind == "profile":
            for end in range(len(route), 0, -1):
                if route[:end] in self.origins:
                    return Place(self.origins[route[:end]], route)
        return Place(self.paths[kind], route)
