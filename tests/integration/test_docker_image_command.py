"""`podwright image` against a real Docker engine, which `.ci/real_docker.sh` starts. The base image is made here: a shell and its libraries."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.deploy.failures import StepFailed
from compiler.deploy.image import BuildEvent, build_image
from tests.integration.parts import docker_host
from tests.unit.render.plans import example_image, example_plan

pytestmark = pytest.mark.real_docker
# Names of this process alone: tests may run side by side in one engine.
TAG = f"podwright-test/image-command:{os.getpid()}"
STAND_IN = f"podwright-test/shell:{os.getpid()}"
BROKEN = f"podwright-test/broken:{os.getpid()}"
PLAN = example_plan(image=example_image(name=TAG))


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    host = docker_host()
    if host is None:
        pytest.skip("SKIPPED: no Docker engine answers; start one with .ci/real_docker.sh")
    docker(host, "import", "-", STAND_IN, given=_shell_and_its_libraries())
    yield host
    for image in (TAG, STAND_IN):
        docker(host, "image", "rm", "-f", image)


@pytest.fixture(autouse=True)
def its_address(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)


def docker(host: str, *arguments: str, given: bytes | None = None) -> str:
    run = subprocess.run(["docker", "--host", host, *arguments], input=given, capture_output=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode()


def _shell_and_its_libraries() -> bytes:
    """A root file system of some megabytes with the machine's own sh, cat and dd."""
    wanted: set[str] = set()
    for name in ("sh", "cat", "dd"):
        program = str(shutil.which(name))
        shown = subprocess.run(["ldd", str(Path(program).resolve())], capture_output=True, text=True, check=True).stdout
        wanted |= {program, *re.findall(r"(/\S+) \(0x", shown)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(wanted):
            target = f"bin/{Path(path).name}" if Path(path).parent.name == "bin" else path.lstrip("/")
            archive.add(Path(path).resolve(), target)
    return buffer.getvalue()


def bundle(folder: Path, *lines: str) -> Path:
    (folder / "image").mkdir(parents=True)
    (folder / "image" / "note.txt").write_text("from the bundle\n")
    (folder / "secret.txt").write_text("must not be sent\n")
    (folder / ".dockerignore").write_text("*\n!image\n")
    (folder / "Dockerfile").write_text("\n".join([f"FROM {PLAN.image.base_reference}", *lines, ""]))
    return folder


def test_a_bundle_becomes_an_image_that_runs(engine: str, tmp_path: Path) -> None:
    events: list[BuildEvent] = []
    folder = bundle(tmp_path / "b", "COPY . /bundle/", "RUN dd if=/dev/zero of=/zeros bs=1000 count=2000 && echo made the zeros", 'CMD ["cat", "/bundle/image/note.txt"]')
    image = build_image(PLAN, folder, on_event=events.append, network="none", base_override=STAND_IN)
    assert docker(engine, "image", "inspect", "--format", "{{.Id}}", TAG).strip() == image.id
    assert [(e.step, e.steps) for e in events if e.kind == "step"] == [(n, 4) for n in (1, 2, 3, 4)]
    assert "made the zeros" in [e.text for e in events if e.kind == "output"]
    assert docker(engine, "run", "--rm", "--network=none", TAG) == "from the bundle\n"
    listed = docker(engine, "run", "--rm", "--network=none", TAG, "sh", "-c", "echo /bundle/*")
    assert listed.split() == ["/bundle/image"]
    zeros = next(layer for layer in image.layers if layer.created_by.startswith("RUN dd"))
    assert zeros.size_bytes == 2_000_000
    assert image.size_bytes >= sum(layer.size_bytes for layer in image.layers)
    assert image.warnings == ()


def test_the_failing_step_its_last_words_and_no_tag(engine: str, tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, image=example_image(name=BROKEN))
    folder = bundle(tmp_path / "b", "RUN echo before; echo the reason >&2; exit 7", "RUN echo never")
    with pytest.raises(StepFailed) as caught:
        build_image(plan, folder, network="none", base_override=STAND_IN)
    failure = caught.value
    assert (failure.step, failure.steps) == (2, 3)
    assert failure.what.startswith("step 2 of 3 failed: RUN echo before")
    assert "exit code 7" in failure.why
    assert sorted(failure.tail) == ["before", "the reason"]  # The engine promises no order between the two streams.
    assert docker(engine, "image", "ls", "-q", BROKEN) == ""


def test_a_base_that_cannot_be_pulled(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "b", "RUN true")
    with pytest.raises(StepFailed) as caught:
        build_image(PLAN, folder, base_override="localhost:9/podwright-test/absent:1")
    assert caught.value.step == 1


def test_an_interrupted_build_leaves_no_tag(engine: str, tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, image=example_image(name=BROKEN))
    folder = bundle(tmp_path / "b", "RUN echo started", "RUN dd if=/dev/zero of=/zeros bs=1000 count=3000", "RUN echo last")

    def stop(event: BuildEvent) -> None:
        if event.text == "started":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_image(plan, folder, on_event=stop, network="none", base_override=STAND_IN)
    assert docker(engine, "image", "ls", "-q", BROKEN) == ""
