"""Specs to a checked bundle. The only place that knows the order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from compiler.artifact import Artifact, Bundle
from compiler.diagnostics import Diagnostic
from compiler.lint.rule import Subject
from compiler.lint.runner import apply_ignores, findings
from compiler.plan import Plan
from compiler.render import common_artifacts, finishing_artifacts
from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecSet
from compiler.targets import Options, target_artifacts, target_schemas


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """What compiling gave: the plan always, the bundle unless a finding is an error."""

    plan: Plan
    bundle: Bundle | None
    diagnostics: tuple[Diagnostic, ...]


def compiled(specs: SpecSet, files: Mapping[str, bytes], options: Options) -> Compiled:
    """Resolve, lint, render, lint again. `files` are the static files below `images/`."""
    plan = resolve_plan(specs)
    found = findings(Subject(specs, plan, {}), "plan")
    artifacts: list[Artifact] = []
    if not any(d.is_error for d in apply_ignores(found, specs)):
        artifacts = [*common_artifacts(plan, files), *target_artifacts(plan, options)]
        found += findings(Subject(specs, plan, {a.path: a for a in artifacts}), "artifacts")
    kept = tuple(apply_ignores(found, specs))
    if any(d.is_error for d in kept):
        return Compiled(plan, None, kept)
    finished = finishing_artifacts(plan, artifacts, kept, target_schemas(plan, options))
    return Compiled(plan, Bundle.of(plan.profile, [*artifacts, *finished]), kept)
