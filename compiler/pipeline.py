"""Specs to a checked bundle. The only place that knows the order."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from compiler.artifact import Artifact, Bundle
from compiler.diagnostics import Diagnostic, Severity, stops
from compiler.lint.rule import Subject
from compiler.lint.runner import apply_ignores, findings
from compiler.plan import Plan
from compiler.render import common_artifacts, finishing_artifacts
from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecSet
from compiler.targets import target
from compiler.targets.base import DEFAULT_OPTIONS, TargetOptions


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """What compiling gave: the plan always, the bundle unless a finding is an error."""

    plan: Plan
    bundle: Bundle | None
    diagnostics: tuple[Diagnostic, ...]


def compiled(specs: SpecSet, files: Mapping[str, bytes], options: TargetOptions = DEFAULT_OPTIONS) -> Compiled:
    """Resolve, lint, render, lint again. `files` are the static files below `images/`."""
    plan = resolve_plan(specs)
    place = target(plan.target)
    found = findings(Subject(specs, plan, {}), "plan")
    artifacts: list[Artifact] = []
    if not stops(apply_ignores(found, specs)):
        artifacts, more = _rendered(plan, {**files, **_lock(specs)}, options, specs)
        found += more or findings(Subject(specs, plan, {a.path: a for a in artifacts}), "artifacts")
    kept = tuple(apply_ignores(found, specs))
    if stops(kept):
        return Compiled(plan, None, kept)
    finished = finishing_artifacts(plan, artifacts, kept, place.deploy_notes(plan, options), place.schemas(options))
    return Compiled(plan, Bundle.of(plan.profile, [*artifacts, *finished]), kept)


def _rendered(plan: Plan, files: Mapping[str, bytes], options: TargetOptions, specs: SpecSet) -> tuple[list[Artifact], list[Diagnostic]]:
    """All artifacts that do not speak of the others, or what the target would refuse."""
    common = common_artifacts(plan, files)
    command = json.loads(next(a for a in common if a.path == "start-command.json").content)
    problems = target(plan.target).request_problems(plan, command, options)
    if problems:
        return common, [Diagnostic("TGT001", Severity.ERROR, p, "The place to run would refuse the request.", "Change the profile's `deploy`, `container` or `env`.", specs.place("profile", "deploy")) for p in problems]
    return [*common, *target(plan.target).bundle_artifacts(plan, command, options)], []


def _lock(specs: SpecSet) -> dict[str, bytes]:
    return {f"specs/engines/{specs.engine.lock}": specs.engine_lock} if specs.engine.lock and specs.engine_lock else {}
