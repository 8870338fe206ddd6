"""Request bodies against RunPod's own OpenAPI documents, where they lie: PODWRIGHT_RUNPOD_SCHEMAS, or beside the checkout."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from compiler.plan import Plan
from compiler.plan.core import EnvVar
from compiler.targets import runpod
from compiler.targets.base import TargetOptions
from tests.unit.render.plans import example_hardware, example_image, example_plan

FOLDER = Path(os.environ.get("PODWRIGHT_RUNPOD_SCHEMAS") or Path(__file__).parents[2] / "../shared/runpod")
NAMES = {"v2": ("CreateTemplateRequest", "CreatePodRequest"), "v1": ("TemplateCreateInput", "PodCreateInput")}
COMMAND = ("/opt/podwright/bootstrap.sh", "a" * 64)
pytestmark = [
    pytest.mark.runpod_schema,
    pytest.mark.skipif(not (FOLDER / "openapi-v2.json").is_file(), reason=f"RunPod's OpenAPI documents are not in {FOLDER}; set PODWRIGHT_RUNPOD_SCHEMAS"),
]


def document(api: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"openapi-{api}.json").read_text("utf-8"))
    if api == "v2":
        for change in json.loads((FOLDER / "openapi-v2-overlay.json").read_text("utf-8")):
            apply(found, change)
    return found


def apply(target: Any, change: dict[str, Any]) -> None:
    """One `add` or `replace` of a JSON Patch."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]]
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if isinstance(target, list):
        target.append(change["value"]) if last == "-" else target.__setitem__(int(last), change["value"])
    else:
        target[last] = change["value"]


def validator(api: str, name: str) -> jsonschema.Draft202012Validator:
    schema = document(api) | {"$ref": f"#/components/schemas/{name}"}
    if api == "v1":
        # OpenAPI 3.0 has no `unevaluatedProperties`: v1 ignores what it does not know, so a misspelled field would pass.
        schema["components"]["schemas"][name]["additionalProperties"] = False
    return jsonschema.Draft202012Validator(schema)


def problems(api: str, index: int, body: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(api, NAMES[api][index]).iter_errors(body)]


def variants() -> dict[str, Plan]:
    plain = example_plan(pod_env=(EnvVar("A", "1"),))
    full_deploy = dataclasses.replace(plain.deploy, data_centers=("EU-SE-1",), registry_auth="cred", entrypoint=("/usr/bin/env",))
    full_storage = dataclasses.replace(plain.storage, min_ram_gb=111, network_volume_id="vol", mount_path="/workspace")
    floor = dataclasses.replace(plain.deploy, cuda_versions=(), min_cuda="13.0", clouds=("COMMUNITY",))
    return {
        "plain": plain,
        "full": dataclasses.replace(plain, deploy=full_deploy, storage=full_storage, image=example_image(ssh=True)),
        "floor": dataclasses.replace(plain, deploy=floor, hardware=example_hardware(runpod_ids=("NVIDIA RTX PRO 5000 Blackwell",), count=1)),
    }


@pytest.mark.parametrize("name", ["plain", "full", "floor"])
def test_v2_bodies_are_valid(name: str) -> None:
    for index, artifact in enumerate(runpod.bundle_artifacts(variants()[name], COMMAND)):
        assert problems("v2", index, json.loads(artifact.text)) == []


@pytest.mark.parametrize("name", ["plain", "full"])
def test_v1_bodies_are_valid(name: str) -> None:
    for index, artifact in enumerate(runpod.bundle_artifacts(variants()[name], COMMAND, TargetOptions("v1"))):
        assert problems("v1", index, json.loads(artifact.text)) == []


@pytest.mark.parametrize("api", ["v2", "v1"])
def test_the_documents_do_refuse_a_wrong_body(api: str) -> None:
    for index, artifact in enumerate(runpod.bundle_artifacts(variants()["plain"], COMMAND, TargetOptions("v2" if api == "v2" else "v1"))):
        body = json.loads(artifact.text)
        for wrong in ({"dockerArgs": "x"}, {"ports": "8080/http"}, {"name": 5}):
            assert problems(api, index, copy.deepcopy(body) | wrong) != []


def test_the_pinned_lists_of_v1_are_the_documents() -> None:
    from compiler.targets.runpod import v1

    listed = document("v1")["components"]["schemas"]["PodCreateInput"]["properties"]
    assert set(v1._CUDA_VERSIONS) == set(listed["allowedCudaVersions"]["items"]["enum"])
    assert set(v1._DATA_CENTERS) == set(listed["dataCenterIds"]["items"]["enum"])
    assert set(listed["gpuTypeIds"]["items"]["enum"]) >= v1._GPU_IDS


def test_every_bundle_that_was_built_is_valid() -> None:
    """Golden bundles, where there are any: what a user gets, byte for byte."""
    for index, file_name in enumerate(("runpod-template.json", "runpod-pod.json")):
        for file in sorted((Path(__file__).parents[1] / "golden").glob(f"*/{file_name}")):
            assert problems("v2", index, json.loads(file.read_text("utf-8"))) == [], file
