"""REST v2 bodies: CreateTemplateRequest and CreatePodRequest. An unknown field is refused with a 422, so none is sent in vain."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.plan import Plan
from compiler.targets.runpod import limits

SCHEMA = {"RunPod REST v2": "2026-08-18, with the changes known up to 2026-10"}


def template(plan: Plan, command: Sequence[str]) -> dict[str, object]:
    """CreateTemplateRequest. A template takes exact CUDA versions only, and no network volume."""
    body = {"name": plan.deploy.template_name, **_container(plan, command), "category": "NVIDIA", "public": False, "serverless": False,
            **_conventions(plan)}
    if plan.deploy.cuda_versions:
        body["allowedCudaVersions"] = list(plan.deploy.cuda_versions)
    return body


def pod(plan: Plan, command: Sequence[str]) -> dict[str, object]:
    """CreatePodRequest, complete without the template: its id is not known before it was created."""
    body = {"name": plan.deploy.pod_name, "cloud": plan.deploy.clouds[0], **_container(plan, command), "gpu": _gpu(plan), **_conventions(plan)}
    if plan.deploy.data_centers:
        body["dataCenterIds"] = list(plan.deploy.data_centers)
    if plan.storage.network_volume_id:
        body["mounts"] = {"network": [{"volumeId": plan.storage.network_volume_id, "path": plan.storage.mount_path}]}
    return body


def problems(plan: Plan, command: Sequence[str]) -> list[str]:
    """What v2 would refuse beyond the limits that hold everywhere."""
    if not plan.hardware.runpod_ids:
        return []
    sizes = {"template": limits.request_bytes(template(plan, command)), "pod": limits.request_bytes(pod(plan, command))}
    return [f"the {what} request has {size:,} bytes; RunPod refuses more than {limits.MAX_REQUEST_BYTES:,}"
            for what, size in sizes.items() if size > limits.MAX_REQUEST_BYTES]


def deploy_notes(plan: Plan) -> tuple[str, ...]:
    """How to create the pod by hand."""
    return (
        "Create the pod: `curl --fail-with-body -X POST https://api.runpod.io/v2/pods -H \"Authorization: Bearer $RUNPOD_API_KEY\" "
        "-H 'Content-Type: application/json' -A podwright -d @runpod-pod.json`. A 400 means no capacity for this GPU, data center and "
        "CUDA version: try the next one. After a 5xx look the name up before trying again, since the pod may exist and be billed.",
        "Look at `cudaVersion` in the answer to `GET /v2/pods/ID`: a host below the pinned version runs nothing; delete the pod and "
        "create another one.",
        "For pods that are started from the console, create the template once: the same call to `https://api.runpod.io/v2/templates` with "
        "runpod-template.json. Pods keep what they started with when the template changes.",
    )


def _container(plan: Plan, command: Sequence[str]) -> dict[str, object]:
    body: dict[str, object] = {"image": plan.image.reference}
    if plan.deploy.entrypoint:
        body["entrypoint"] = list(plan.deploy.entrypoint)
    if command:
        body["cmd"] = list(command)
    body |= {"disk": plan.storage.container_disk_gb, "ports": limits.ports(plan), "env": limits.env(plan)}
    if plan.deploy.registry_auth:
        body["registry"] = plan.deploy.registry_auth
    return body


def _conventions(plan: Plan) -> dict[str, object]:
    """Both flags always, because their defaults differ between templates and pods. SSH needs RunPod to bring the public key."""
    return {"startSsh": plan.image.ssh, "startJupyter": False}


def _gpu(plan: Plan) -> dict[str, object]:
    """The count always: without it RunPod was seen to match no machine."""
    gpu: dict[str, object] = {"id": plan.hardware.runpod_ids[0], "count": plan.hardware.count}
    if plan.deploy.cuda_versions:
        gpu["allowedCudaVersions"] = list(plan.deploy.cuda_versions)
    elif plan.deploy.min_cuda:
        gpu["minCudaVersion"] = plan.deploy.min_cuda
    ram = limits.ram_per_gpu_gb(plan)
    if ram:
        gpu["minRamPerGpu"] = ram
    return gpu
