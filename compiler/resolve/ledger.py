"""Keeps, for each decided value, where it came from: what `podwright explain` prints."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from compiler.diagnostics import Place
from compiler.plan.core import Decision, OriginKind
from compiler.schema.base import Choice
from compiler.schema.specset import SpecKind, SpecSet


class Ledger:
    """Decisions by route; a later decision on the same route replaces the earlier one."""

    def __init__(self, specs: SpecSet, prefix: str = "") -> None:
        self.specs = specs
        self.prefix = prefix
        self._decisions: dict[str, Decision] = {}

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """All decisions, sorted by route."""
        return tuple(self._decisions[route] for route in sorted(self._decisions))

    def record(self, route: str, value: Any, origin: OriginKind, where: str, reason: str, evidence: tuple[str, ...] = ()) -> None:
        """Note that `route` has `value`."""
        full = self.prefix + route
        self._decisions[full] = Decision(full, as_text(value), origin, where, reason, evidence)

    def computed(self, route: str, value: Any, reason: str, evidence: tuple[str, ...] = ()) -> None:
        """Note a value that follows from others."""
        self.record(route, value, "computed", "", reason, evidence)

    def default(self, route: str, value: Any, reason: str, evidence: tuple[str, ...] = ()) -> None:
        """Note a value that nobody chose."""
        self.record(route, value, "default", "", reason, evidence)

    def choice(self, route: str, kind: SpecKind, place: Place, choice: Choice[Any]) -> None:
        """Note a value that a spec chose."""
        self.record(route, choice.value, kind, str(place), choice.reason or "Chosen without a stated reason.", choice.evidence)

    def section(self, route: str, spec: BaseModel, *key: str) -> None:
        """Note every field of a section of the profile: chosen there, or left at its default."""
        section_reason = getattr(spec, "reason", None)
        evidence = getattr(spec, "evidence", ())
        for name, field in type(spec).model_fields.items():
            value = getattr(spec, name)
            if name in ("reason", "evidence") or isinstance(value, BaseModel):
                continue
            if name in spec.model_fields_set:
                place = self.specs.place("profile", *key, name)
                self.record(f"{route}.{name}", value, "profile", str(place), section_reason or field.description or "", evidence)
            else:
                self.default(f"{route}.{name}", value, field.description or "")


def as_text(value: Any) -> str:
    """A value for people: text as it is, everything else as compact JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str)
