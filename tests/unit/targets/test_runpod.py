"""Request bodies for RunPod: what is in them, and what is refused before it is sent."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from compiler.plan import Plan
from compiler.plan.core import EnvVar, Port, SecretPlan
from compiler.targets import TARGETS, runpod, target
from compiler.targets.base import TargetError, TargetOptions
from tests.unit.render.plans import example_hardware, example_image, example_plan

COMMAND = ("/opt/podwright/bootstrap.sh", "a" * 64)
V1 = TargetOptions("v1")


def deploy(**changes: Any) -> Plan:
    return example_plan(deploy=dataclasses.replace(example_plan().deploy, **changes))


def storage(**changes: Any) -> Plan:
    return example_plan(storage=dataclasses.replace(example_plan().storage, **changes))


def network(ports: int) -> Plan:
    found = tuple(Port(9000 + i, "http", "x") for i in range(ports))
    return example_plan(network=dataclasses.replace(example_plan().network, ports=found))


def secret(name: str, env: str = "S") -> Plan:
    return example_plan(secrets=(SecretPlan(env, name, True, "x"),), pod_env=(EnvVar("TAKEN", "1"),))


def bodies(plan: Plan, options: TargetOptions = TargetOptions()) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: B008
    template, pod = runpod.bundle_artifacts(plan, COMMAND, options)
    assert (template.path, pod.path) == ("runpod-template.json", "runpod-pod.json")
    return json.loads(template.text), json.loads(pod.text)


def test_both_bodies_carry_the_command_and_only_names_of_secrets() -> None:
    for body in bodies(example_plan(pod_env=(EnvVar("A", "1"),))):
        assert body["cmd"] == list(COMMAND)
        assert body["env"] == {"A": "1", "HF_TOKEN": "{{ RUNPOD_SECRET_hf-token }}"}
        assert body["startSsh"] is False and body["startJupyter"] is False
        assert "entrypoint" not in body and "registry" not in body


def test_a_pod_says_count_cloud_and_pin() -> None:
    template, pod = bodies(deploy(data_centers=("EU-SE-1",), registry_auth="reg", entrypoint=("/usr/bin/env",)))
    assert pod["gpu"] == {"id": "NVIDIA A40", "count": 2, "allowedCudaVersions": ["13.0"]}
    assert (pod["cloud"], pod["dataCenterIds"], pod["registry"], pod["entrypoint"]) == ("SECURE", ["EU-SE-1"], "reg", ["/usr/bin/env"])
    assert template["allowedCudaVersions"] == ["13.0"] and "gpu" not in template and "templateId" not in pod


def test_a_floor_goes_to_the_pod_alone() -> None:
    template, pod = bodies(deploy(cuda_versions=(), min_cuda="13.0"))
    assert pod["gpu"]["minCudaVersion"] == "13.0" and "allowedCudaVersions" not in pod["gpu"]
    assert "allowedCudaVersions" not in template and "minCudaVersion" not in template


def test_memory_is_asked_for_each_gpu_and_rounded_up() -> None:
    assert bodies(storage(min_ram_gb=111))[1]["gpu"]["minRamPerGpu"] == 56
    assert bodies(storage(min_ram_gb=111), V1)[1]["minRAMPerGPU"] == 56


def test_a_network_volume_is_mounted_by_the_pod_alone() -> None:
    template, pod = bodies(storage(network_volume_id="vol", mount_path="/workspace"))
    assert pod["mounts"] == {"network": [{"volumeId": "vol", "path": "/workspace"}]} and "mounts" not in template


def test_ssh_asks_runpod_for_the_public_key() -> None:
    assert all(body["startSsh"] is True for body in bodies(example_plan(image=example_image(ssh=True))))


def test_v1_refuses_its_default_volume_and_tries_every_gpu() -> None:
    plan = example_plan(hardware=example_hardware(runpod_ids=("NVIDIA A40", "NVIDIA RTX A6000")))
    template, pod = bodies(plan, V1)
    assert template["volumeInGb"] == 0 and pod["volumeInGb"] == 0
    assert pod["gpuTypeIds"] == ["NVIDIA A40", "NVIDIA RTX A6000"] and pod["gpuTypePriority"] == "custom"
    assert "allowedCudaVersions" not in template and pod["allowedCudaVersions"] == ["13.0"]


@pytest.mark.parametrize(("plan", "said"), [
    (example_plan(hardware=example_hardware(runpod_ids=())), "no RunPod GPU id"),
    (deploy(min_cuda="13.0"), "takes one of them"),
    (deploy(cuda_versions=("13",)), "not of the form"),
    (deploy(data_centers=("eu-se-1",)), "upper case"),
    (deploy(pod_name="x" * 61), "61 characters"),
    (deploy(template_name=""), "0 characters"),
    (storage(network_volume_id="v"), "both its id and the path"),
    (storage(container_disk_gb=0), "container disk of 0 GB"),
    (example_plan(pod_env=tuple(EnvVar(f"E{i}", "") for i in range(50))), "51 environment variables"),
    (network(11), "11 http ports"),
    (secret("9lives"), "not start with a digit"),
    (secret("runpod-key"), "keeps for itself"),
    (secret("ok", "TAKEN"), "both a plain variable and a secret"),
    (example_plan(pod_env=(EnvVar("BIG", "x" * 102_400),)), "refuses more than 102,400"),
    (dataclasses.replace(storage(network_volume_id="v", mount_path="/w"), deploy=deploy(clouds=("COMMUNITY",)).deploy), "SECURE cloud only"),
])  # fmt: skip
def test_what_runpod_would_refuse_is_said_and_never_written(plan: Plan, said: str) -> None:
    problems = runpod.request_problems(plan, COMMAND)
    assert any(said in problem for problem in problems), problems
    with pytest.raises(TargetError) as caught:
        runpod.bundle_artifacts(plan, COMMAND)
    assert list(caught.value.problems) == problems


def test_limits_are_reached_without_complaint() -> None:
    plan = dataclasses.replace(network(10), pod_env=tuple(EnvVar(f"E{i}", "") for i in range(49)), deploy=deploy(pod_name="x" * 60).deploy)
    assert runpod.request_problems(plan, COMMAND) == []


@pytest.mark.parametrize(("plan", "said"), [
    (deploy(cuda_versions=("13.1",)), "13.1"),
    (deploy(cuda_versions=(), min_cuda="13.0"), "no CUDA floor"),
    (deploy(data_centers=("EU-XX-9",)), "EU-XX-9"),
    (example_plan(hardware=example_hardware(runpod_ids=("NVIDIA RTX PRO 5000 Blackwell",))), "PRO 5000"),
])  # fmt: skip
def test_v1_knows_less_than_v2(plan: Plan, said: str) -> None:
    assert runpod.request_problems(plan, COMMAND) == []
    assert any(said in problem for problem in runpod.request_problems(plan, COMMAND, V1))


def test_notes_tell_what_a_body_cannot_say() -> None:
    plan = dataclasses.replace(deploy(clouds=("SECURE", "COMMUNITY"), price_ceiling_usd_h=2.0), hardware=example_hardware(runpod_ids=("a", "b")))
    notes = " ".join(runpod.deploy_notes(plan))
    for part in ("`hf-token`", "api.runpod.io/v2/pods", "has no capacity: b.", "in order: COMMUNITY.", "above $2.00 an hour"):
        assert part in notes
    assert "15 November 2026" in " ".join(runpod.deploy_notes(plan, V1))


def test_every_target_in_the_table_keeps_the_protocol() -> None:
    for name in TARGETS:
        found = target(name)
        assert name == found.NAME
        assert found.bundle_artifacts(example_plan(), COMMAND, TargetOptions())
        assert found.deploy_notes(example_plan(), TargetOptions())
        assert isinstance(dict(found.schemas(TargetOptions())), dict)
