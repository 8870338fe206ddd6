"""The start command: an argv that comes out of RunPod's storage as it went in."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from compiler.artifact import Artifact
from compiler.plan.core import Plan
from compiler.render.bootstrap import render_bootstrap
from compiler.render.environment import rendered
from compiler.render.payload import embedded, render_payload

REQUEST_LIMIT = 102_400
"""Bytes of one RunPod request, template included."""


def start_command(plan: Plan, files: Mapping[str, bytes], manifest: Artifact) -> tuple[str, ...]:
    """The pod's whole argv: the plan's fixed part, and the manifest's sha256 or the script that the request carries."""
    payload = render_payload(plan, files, manifest)
    if payload is None:
        return (*plan.deploy.start_command, manifest.sha256)
    bootstrap = render_bootstrap(plan, files, payload).text
    script = rendered("start-script.sh.j2", bootstrap=bootstrap, payload=embedded(payload) or "")
    return (*plan.deploy.start_command, script.decode("utf-8"))


def render_start_command(plan: Plan, files: Mapping[str, bytes], manifest: Artifact) -> Artifact:
    """`start-command.json`: the argv as a JSON list, the form that RunPod's `cmd` and `dockerStartCmd` take."""
    return Artifact("start-command.json", (json.dumps(start_command(plan, files, manifest), indent=1) + "\n").encode("ascii"))


def render_start(plan: Plan, files: Mapping[str, bytes], manifest: Artifact) -> list[Artifact]:
    """bootstrap.sh, start-command.json and, for an image that is not prebaked, payload.tar.bz2."""
    payload = render_payload(plan, files, manifest)
    return [
        render_bootstrap(plan, files, payload), render_start_command(plan, files, manifest), *([payload] if payload else []),
    ]  # fmt: skip


def stored_form(cmd: Sequence[str], entrypoint: Sequence[str] = ()) -> str:
    """The one string in which RunPod keeps a start command, as ASCII JSON."""
    return json.dumps({"cmd": list(cmd), "entrypoint": list(entrypoint)}, ensure_ascii=True)


def decoded(stored: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """cmd and entrypoint of a stored start command: a JSON object of lists, or plain text split into words.

    RunPod does not say how it splits plain text; shell words are the best case, and still lose an argv that was joined with
    spaces. So we never store any.
    """
    try:
        found = json.loads(stored)
    except ValueError:
        found = None
    if isinstance(found, dict) and found.keys() <= {"cmd", "entrypoint"} and all(map(_is_argv, found.values())):
        return tuple(found.get("cmd", ())), tuple(found.get("entrypoint", ()))
    try:
        return tuple(shlex.split(stored)), ()
    except ValueError:
        return tuple(stored.split()), ()


def _is_argv(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
