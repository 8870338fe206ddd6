"""REST v1 bodies: TemplateCreateInput and PodCreateInput. RunPod announced this interface's end for 15 November 2026."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.plan import Plan
from compiler.targets.runpod import limits

SCHEMA = {"RunPod REST v1": "2026-07-20"}
# The lists of PodCreateInput in that document, where everything else is refused; v2 has no such lists. NVIDIA cards that anybody
# would serve a language model on.
_CUDA_VERSIONS = ("13.0", "12.9", "12.8", "12.7", "12.6", "12.5", "12.4", "12.3", "12.2", "12.1", "12.0", "11.8")
_GPU_IDS = frozenset({
    "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA A30", "NVIDIA A40", "NVIDIA B200", "NVIDIA GeForce RTX 3070",
    "NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3080 Ti", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4070 Ti",
    "NVIDIA GeForce RTX 4080", "NVIDIA GeForce RTX 4080 SUPER", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5080",
    "NVIDIA GeForce RTX 5090", "NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL", "NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA H200 NVL",
    "NVIDIA L4", "NVIDIA L40", "NVIDIA L40S", "NVIDIA RTX 2000 Ada Generation", "NVIDIA RTX 4000 Ada Generation",
    "NVIDIA RTX 4000 SFF Ada Generation", "NVIDIA RTX 5000 Ada Generation", "NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX A2000",
    "NVIDIA RTX A4000", "NVIDIA RTX A4500", "NVIDIA RTX A5000", "NVIDIA RTX A6000",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "Tesla T4", "Tesla V100-PCIE-16GB", "Tesla V100-SXM2-32GB",
})  # fmt: skip
_DATA_CENTERS = frozenset({
    "AP-JP-1", "CA-MTL-1", "CA-MTL-2", "CA-MTL-3", "EU-CZ-1", "EU-FR-1", "EU-NL-1", "EU-RO-1", "EU-SE-1", "EUR-IS-1", "EUR-IS-2",
    "EUR-IS-3", "EUR-NO-1", "OC-AU-1", "US-CA-2", "US-DE-1", "US-GA-1", "US-GA-2", "US-IL-1", "US-KS-2", "US-KS-3", "US-NC-1",
    "US-TX-1", "US-TX-3", "US-TX-4", "US-WA-1",
})  # fmt: skip


def template(plan: Plan, command: Sequence[str]) -> dict[str, object]:
    """TemplateCreateInput. It has no CUDA field: only a pod can be pinned."""
    return {"name": plan.deploy.template_name, **_container(plan, command), "category": "NVIDIA", "isPublic": False, "isServerless": False}


def pod(plan: Plan, command: Sequence[str]) -> dict[str, object]:
    """PodCreateInput with every GPU id in order. The volume of 20 GB that an omitted size would bring is refused by a 0."""
    body: dict[str, object] = {
        "name": plan.deploy.pod_name, "computeType": "GPU", "cloudType": plan.deploy.clouds[0], **_container(plan, command),
        "gpuTypeIds": list(plan.hardware.runpod_ids), "gpuTypePriority": "custom", "gpuCount": plan.hardware.count,
        "interruptible": False,
    }  # fmt: skip
    if plan.deploy.cuda_versions:
        body["allowedCudaVersions"] = list(plan.deploy.cuda_versions)
    if plan.deploy.data_centers:
        body |= {"dataCenterIds": list(plan.deploy.data_centers), "dataCenterPriority": "custom"}
    ram = limits.ram_per_gpu_gb(plan)
    if ram:
        body["minRAMPerGPU"] = ram
    if plan.storage.network_volume_id:
        body |= {"networkVolumeId": plan.storage.network_volume_id, "volumeMountPath": plan.storage.mount_path}
    return body


def problems(plan: Plan, command: Sequence[str]) -> list[str]:
    """What v1 would refuse, or could not say, beyond the limits that hold everywhere."""
    found = [f"CUDA {version} is not in REST v1's list; use v2" for version in plan.deploy.cuda_versions if version not in _CUDA_VERSIONS]
    found += [f"GPU id {gpu!r} is not in REST v1's list; use v2" for gpu in plan.hardware.runpod_ids if gpu not in _GPU_IDS]
    found += [f"data center {name} is not in REST v1's list; use v2" for name in plan.deploy.data_centers if name not in _DATA_CENTERS]
    if plan.deploy.min_cuda:
        found.append(f"REST v1 has no CUDA floor, so {plan.deploy.min_cuda} cannot be asked for; use v2 or exact versions")
    return found


def deploy_notes(plan: Plan) -> tuple[str, ...]:
    """How to create the pod by hand, and why to move on."""
    return (
        "These are REST v1 bodies. RunPod announced the end of v1 for 15 November 2026: an answer of 410 means that it is gone; build "
        "again without `--api v1`.",
        "Create the pod: `curl --fail-with-body -X POST https://rest.runpod.io/v1/pods -H \"Authorization: Bearer $RUNPOD_API_KEY\" "
        "-H 'Content-Type: application/json' -A podwright -d @runpod-pod.json`. After a 500 look the name up before trying again: v1 was "
        "seen to answer 500 for a pod that it had created.",
        "A v1 template has no CUDA field and v1 never tells the host's version. A pod from the template alone is not pinned.",
    )


def _container(plan: Plan, command: Sequence[str]) -> dict[str, object]:
    body: dict[str, object] = {
        "imageName": plan.image.reference, "dockerEntrypoint": list(plan.deploy.entrypoint),
        "dockerStartCmd": list(command), "containerDiskInGb": plan.storage.container_disk_gb, "volumeInGb": 0,
        "ports": limits.ports(plan), "env": limits.env(plan),
    }  # fmt: skip
    if plan.deploy.registry_auth:
        body["containerRegistryAuthId"] = plan.deploy.registry_auth
    return body
