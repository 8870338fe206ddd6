"""RunPod's documented limits that hold for either interface, and what both bodies share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

from compiler.plan import Plan

# `api-reference-v2` of RunPod's documentation, read 2026-10: a create request, alone or with its template.
MAX_REQUEST_BYTES = 102_400
# Documentation, "Environment variables": per pod.
MAX_ENV = 50
# Documentation, "Expose ports": per pod, through the HTTP proxy.
MAX_HTTP_PORTS = 10
# RunPod takes longer names; 60 characters is what other deployers keep to, and what its console still shows whole.
MAX_NAME = 60
_SECRET_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.\-/]*\Z")
_CUDA = re.compile(r"\d+\.\d+\Z")


def problems(plan: Plan) -> list[str]:
    """What RunPod would refuse whichever interface is used."""
    return [*_placement_problems(plan), *_container_problems(plan), *_secret_problems(plan)]


def env(plan: Plan) -> dict[str, str]:
    """The pod's variables by name: plain values, and a reference for each secret."""
    values = {v.name: v.value for v in plan.pod_env}
    values |= {s.env: f"{{{{ RUNPOD_SECRET_{s.provider_name} }}}}" for s in plan.secrets}
    return dict(sorted(values.items()))


def ports(plan: Plan) -> list[str]:
    """Exposed ports as RunPod writes them."""
    return [str(port) for port in plan.network.ports]


def ram_per_gpu_gb(plan: Plan) -> int | None:
    """Host memory to ask for, in GB for each GPU, rounded up; None when the plan asks for none."""
    return math.ceil(plan.storage.min_ram_gb / plan.hardware.count) if plan.storage.min_ram_gb else None


def request_bytes(body: dict[str, object]) -> int:
    """Size of a body as sent: compact JSON."""
    return len(json.dumps(body, separators=(",", ":")).encode())


def _placement_problems(plan: Plan) -> Iterator[str]:
    deploy = plan.deploy
    if not plan.hardware.runpod_ids:
        yield f"hardware {plan.hardware.slug} has no RunPod GPU id, so no pod can be asked for"
    volume = plan.storage.mount_path
    for model in (plan.model, *(m.model for m in (plan.swap.members if plan.swap else ()))):
        if model.folder and not (volume and model.folder.startswith(f"{volume}/")):
            yield f"the weights of {model.slug} lie in {model.folder}, which no network volume of the pod holds"
    if deploy.cuda_versions and deploy.min_cuda:
        yield f"both exact CUDA versions and the floor {deploy.min_cuda} are asked for; RunPod takes one of them"
    for version in (*deploy.cuda_versions, *((deploy.min_cuda,) if deploy.min_cuda else ())):
        if not _CUDA.match(version):
            yield f"CUDA version {version!r} is not of the form 13.0"
    for center in deploy.data_centers:
        if center != center.upper():
            yield f"data center {center!r} is not in upper case"
    if (plan.storage.network_volume_id is None) != (plan.storage.mount_path is None):
        yield "a network volume needs both its id and the path that it is mounted at"
    if plan.storage.network_volume_id and deploy.clouds[0] != "SECURE":
        yield "network volumes exist in the SECURE cloud only"


def _container_problems(plan: Plan) -> Iterator[str]:
    for what, name in (("template", plan.deploy.template_name), ("pod", plan.deploy.pod_name)):
        if not 1 <= len(name) <= MAX_NAME:
            yield f"the {what} name has {len(name)} characters; 1 to {MAX_NAME} are allowed"
    if plan.storage.container_disk_gb < 1:
        yield f"a container disk of {plan.storage.container_disk_gb} GB is not possible; the least is 1"
    variables = env(plan)
    if len(variables) > MAX_ENV:
        yield f"{len(variables)} environment variables; RunPod allows {MAX_ENV}"
    http = sum(port.protocol == "http" for port in plan.network.ports)
    if http > MAX_HTTP_PORTS:
        yield f"{http} http ports; RunPod's proxy allows {MAX_HTTP_PORTS}"


def _secret_problems(plan: Plan) -> Iterator[str]:
    taken = {variable.name for variable in plan.pod_env}
    for secret in plan.secrets:
        if not _SECRET_NAME.match(secret.provider_name):
            yield f"secret name {secret.provider_name!r} may hold letters, digits and _ . - / only, and not start with a digit"
        if secret.provider_name.upper().startswith("RUNPOD"):
            yield f"secret name {secret.provider_name!r} starts with RUNPOD, which RunPod keeps for itself"
        if secret.env in taken:
            yield f"variable {secret.env} is both a plain variable and a secret"
