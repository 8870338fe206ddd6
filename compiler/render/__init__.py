"""Plan to artifacts, one function an artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.artifact import Artifact
from compiler.diagnostics import Diagnostic
from compiler.plan import Plan
from compiler.render.bundle_lock import render_bundle_lock
from compiler.render.connect import render_connect
from compiler.render.dockerfile import render_image
from compiler.render.manifest import render_manifest
from compiler.render.plan_document import render_plan_document
from compiler.render.plan_json import render_plan_json
from compiler.render.start_command import render_start


def common_artifacts(plan: Plan, files: Mapping[str, bytes]) -> list[Artifact]:
    """What every target needs: manifest, image, start, client scripts, plan. `files` are the static inputs."""
    manifest = render_manifest(plan)
    return [manifest, *render_image(plan, files), *render_start(plan, files, manifest), *render_connect(plan), render_plan_json(plan)]


def finishing_artifacts(plan: Plan, artifacts: Sequence[Artifact], findings: Sequence[Diagnostic], notes: Sequence[str], schemas: Mapping[str, str]) -> list[Artifact]:
    """What speaks of the rest: the document for a person, and the lock over everything."""
    document = render_plan_document(plan, findings, notes)
    return [document, render_bundle_lock(plan, [*artifacts, document], schemas)]
