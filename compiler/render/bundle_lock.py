"""Plan and artifacts -> `bundle.lock`: which inputs made which outputs, so that a bundle can be checked and rebuilt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from compiler import __version__
from compiler.artifact import Artifact
from compiler.plan import Plan

PATH = "bundle.lock"
LOCK_VERSION = 1


def render_bundle_lock(plan: Plan, artifacts: Iterable[Artifact], schemas: Mapping[str, str]) -> Artifact:
    """`bundle.lock` over all other artifacts of the bundle.

    `schemas` are the documents that the target's files were written against, by name, each with its date.
    """
    lock = {
        "lock_version": LOCK_VERSION,
        "podwright": __version__,
        "profile": plan.profile,
        "target": plan.target,
        "engine": {"distribution": plan.engine.distribution, "release": plan.engine.release, "flags": _flag_snapshot(plan),
                   "lock": plan.image.lock_file},
        "image": {"base": plan.image.base, "base_digest": plan.image.base_digest, "name": plan.image.name,
                  "name_digest": plan.image.name_digest},
        "models": dict(sorted(_revisions(plan), key=lambda pair: pair[0])),
        "schemas": dict(sorted(schemas.items())),
        "inputs": {file.path: file.sha256 for file in sorted(plan.inputs, key=lambda f: f.path)},
        "outputs": {a.path: a.sha256 for a in sorted(artifacts, key=lambda a: a.path) if a.path != PATH},
    }
    return Artifact(PATH, f"{json.dumps(lock, indent=2, ensure_ascii=False)}\n".encode())


def _flag_snapshot(plan: Plan) -> str | None:
    """Path of the engine's flag snapshot among the inputs; None when the plan was made without one."""
    return next((file.path for file in plan.inputs if "flags" in file.path.split("/")[:-1]), None)


def _revisions(plan: Plan) -> Iterable[tuple[str, str | None]]:
    members = [(m.model, m.engine) for m in plan.swap.members] if plan.swap else []
    for model, engine in [(plan.model, plan.engine), *members]:
        if model.fetched:
            yield model.repo, model.revision
        yield from ((draft.repo, draft.revision) for draft in engine.drafts)
        if model.tokenizer:
            yield model.tokenizer.repo, model.tokenizer.revision
