"""Questions about plans: what another setting would change, which setting would fit, and where a model fits.

Everything is answered by planning again: nothing here knows how memory is divided.
"""

from __future__ import annotations

import dataclasses

from compiler.diagnostics import Diagnostic
from compiler.lint.rule import Subject
from compiler.lint.runner import apply_ignores, findings
from compiler.load import SpecStore, load_specset
from compiler.plan import Plan
from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecSet

__all__ = ["Planned", "planned", "planned_profile"]


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """One profile as planned, with what the rules find about it (the profile's `ignore:` entries applied)."""

    specs: SpecSet
    plan: Plan
    findings: tuple[Diagnostic, ...]

    @property
    def is_refused(self) -> bool:
        """True when a rule says that it would not start or not serve."""
        return any(d.is_error for d in self.findings)

    @property
    def fits(self) -> bool:
        """True when the memory surely suffices and no rule refuses."""
        return self.plan.memory.verdict == "fits" and not self.is_refused


def planned(specs: SpecSet) -> Planned:
    """The plan of complete specs, and the findings about it."""
    plan = resolve_plan(specs)
    return Planned(specs, plan, tuple(apply_ignores(findings(Subject(specs, plan, {}), "plan"), specs)))


def planned_profile(store: SpecStore, profile: str) -> tuple[Planned | None, list[Diagnostic]]:
    """The plan of a profile of `store`; None, and what is wrong, when its specs cannot be used."""
    specs, problems = load_specset(store, profile)
    return (planned(specs) if specs is not None else None), problems
