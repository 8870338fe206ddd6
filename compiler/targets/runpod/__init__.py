"""RunPod: the bodies that create a template and a pod. REST v2 unless v1 is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import ModuleType

from compiler.artifact import Artifact
from compiler.plan import Plan
from compiler.targets.base import DEFAULT_OPTIONS, TargetError, TargetOptions
from compiler.targets.runpod import limits, v1, v2

NAME = "runpod"
TEMPLATE_PATH, POD_PATH = "runpod-template.json", "runpod-pod.json"
_APIS: dict[str, ModuleType] = {"v1": v1, "v2": v2}


def request_problems(plan: Plan, command: Sequence[str], options: TargetOptions = DEFAULT_OPTIONS) -> list[str]:
    """What RunPod would refuse, one sentence each: its documented limits and those of the interface asked for.

    `command` is the pod's whole argv.
    """
    return [*limits.problems(plan), *_APIS[options.api].problems(plan, command)]


def bundle_artifacts(plan: Plan, command: Sequence[str], options: TargetOptions = DEFAULT_OPTIONS) -> list[Artifact]:
    """`runpod-template.json` and `runpod-pod.json`. Raises TargetError when RunPod would refuse either."""
    problems = request_problems(plan, command, options)
    if problems:
        raise TargetError(NAME, problems)
    api = _APIS[options.api]
    return [_body(TEMPLATE_PATH, api.template(plan, command)), _body(POD_PATH, api.pod(plan, command))]


def deploy_notes(plan: Plan, options: TargetOptions = DEFAULT_OPTIONS) -> tuple[str, ...]:
    """The calls that create what the bundle describes, and what to look at afterwards."""
    return (*_secret_notes(plan), *_APIS[options.api].deploy_notes(plan), *_candidate_notes(plan))


def schemas(options: TargetOptions = DEFAULT_OPTIONS) -> Mapping[str, str]:
    """The OpenAPI document of the interface asked for, with the day of the copy that the bodies were written against."""
    return dict(_APIS[options.api].SCHEMA)


def _body(path: str, body: Mapping[str, object]) -> Artifact:
    return Artifact(path, f"{json.dumps(body, indent=2, ensure_ascii=False)}\n".encode())


def _secret_notes(plan: Plan) -> tuple[str, ...]:
    if not plan.secrets:
        return ()
    rows = ", ".join(f"`{s.provider_name}` (becomes `{s.env}`: {s.purpose}{'' if s.required else '; optional'})" for s in plan.secrets)
    return (f"Create these secrets in the RunPod console first: {rows}. A body only names them. A reference to a secret that does not "
            "exist stays in the variable as text, which the runtime treats as not set.",)


def _candidate_notes(plan: Plan) -> tuple[str, ...]:
    notes = []
    if len(plan.hardware.runpod_ids) > 1:
        notes.append(f"Further GPU ids to try when the first has no capacity: {', '.join(plan.hardware.runpod_ids[1:])}.")
    if len(plan.deploy.clouds) > 1:
        notes.append(f"Further clouds to try, in order: {', '.join(plan.deploy.clouds[1:])}.")
    if plan.deploy.price_ceiling_usd_h is not None:
        notes.append(f"The profile rents nothing above ${plan.deploy.price_ceiling_usd_h:.2f} an hour; RunPod's interface has no such "
                     "field, so compare the price before creating the pod.")
    return tuple(notes)
