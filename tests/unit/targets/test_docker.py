"""run.sh, run in a real shell with a `docker` that prints what it was given."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from compiler.plan import Plan
from compiler.plan.core import EnvVar, SecretPlan
from compiler.targets import docker
from compiler.targets.base import TargetError
from tests.unit.render.plans import example_hardware, example_image, example_model, example_plan

COMMAND = ("/opt/podwright/bootstrap.sh", "it's $HOME; `x`\n\"y\"")


def run(plan: Plan, folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    for artifact in docker.bundle_artifacts(plan, COMMAND):
        (folder / artifact.path).write_bytes(artifact.content)
        (folder / artifact.path).chmod(artifact.mode)
    stand_in = folder / "bin" / "docker"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text("#!/bin/sh\nfor word; do printf '%s\\0' \"$word\"; done\n")
    stand_in.chmod(0o755)
    environ = {"PATH": f"{stand_in.parent}:{os.environ['PATH']}", "HOME": str(folder), **env}
    return subprocess.run([str(folder / "run.sh"), *arguments], env=environ, capture_output=True, text=True, timeout=20)


def words(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert result.returncode == 0, result.stderr
    return result.stdout.split("\0")[:-1]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "my cache"
    folder.mkdir()
    return folder


def test_the_container_gets_the_command_whole_and_loopback_ports(tmp_path: Path, cache: Path) -> None:
    plan = example_plan(secrets=(), pod_env=(EnvVar("A", "1 $HOME"),))
    found = words(run(plan, tmp_path, "--detach", PODWRIGHT_HF_HOME=str(cache)))
    assert found[0] == "run" and found[-4:] == ["--detach", plan.image.reference, *COMMAND]
    for option, value in (("--gpus", "2"), ("--publish", "127.0.0.1:8080:8080"), ("--ipc", "host"), ("--env", "A=1 $HOME"), ("--stop-timeout", "30"),
                          ("--mount", f"type=bind,src={cache},dst=/root/.cache/huggingface"), ("--mount", "type=volume,src=example-cache,dst=/root/.cache/vllm")):
        assert any(found[i : i + 2] == [option, value] for i in range(len(found))), (option, found)
    assert "--env-file" not in found


def test_a_cpu_gets_no_gpus_and_an_entrypoint_is_split(tmp_path: Path, cache: Path) -> None:
    plan = example_plan(secrets=(), hardware=example_hardware(architecture="cpu"), image=example_image())
    plan = dataclasses.replace(plan, deploy=dataclasses.replace(plan.deploy, entrypoint=("/usr/bin/env", "-i")))
    found = words(run(plan, tmp_path, PODWRIGHT_HF_HOME=str(cache)))
    assert "--gpus" not in found and found[found.index("--entrypoint") + 1] == "/usr/bin/env"
    assert found[-4:] == [plan.image.reference, "-i", *COMMAND]


def test_a_missing_cache_is_an_error_and_is_not_made_up(tmp_path: Path) -> None:
    result = run(example_plan(secrets=()), tmp_path, PODWRIGHT_HF_HOME=str(tmp_path / "nowhere"))
    assert result.returncode == 1 and "nowhere does not exist" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_generated_model_needs_no_cache(tmp_path: Path) -> None:
    plan = example_plan(secrets=(), model=example_model(generated=True))
    found = words(run(plan, tmp_path, PODWRIGHT_HF_HOME=str(tmp_path / "nowhere")))
    assert not any("type=bind" in word for word in found)


def test_required_secrets_must_be_filled_in(tmp_path: Path, cache: Path) -> None:
    plan = example_plan(secrets=(SecretPlan("KEY", "key", True, "the key"), SecretPlan("HF_TOKEN", "hf-token", False, "the Hub")))
    env = {"PODWRIGHT_HF_HOME": str(cache)}
    assert "secrets.env does not exist" in run(plan, tmp_path, **env).stderr
    form = (tmp_path / "secrets.env.example").read_text()
    assert "# the Hub Optional.\nHF_TOKEN=\n" in form
    (tmp_path / "secrets.env").write_text(form)
    assert "KEY has no value" in run(plan, tmp_path, **env).stderr
    (tmp_path / "secrets.env").write_text(form.replace("\nKEY=", "\nKEY=s"))
    found = words(run(plan, tmp_path, **env))
    assert found[found.index("--env-file") + 1] == str(tmp_path / "secrets.env")
    assert "s" not in found


@pytest.mark.parametrize("name", ["", "-x", "a b"])
def test_what_docker_would_refuse_is_said(name: str) -> None:
    plan = dataclasses.replace(example_plan(), deploy=dataclasses.replace(example_plan().deploy, pod_name=name))
    assert "no container name" in docker.request_problems(plan, COMMAND)[0]
    with pytest.raises(TargetError):
        docker.bundle_artifacts(plan, COMMAND)


def test_a_network_volume_is_refused() -> None:
    plan = dataclasses.replace(example_plan(), storage=dataclasses.replace(example_plan().storage, network_volume_id="v", mount_path="/w"))
    assert "network volume" in docker.request_problems(plan, COMMAND)[0]


@pytest.mark.linters
@pytest.mark.parametrize("secrets", [(), (SecretPlan("KEY", "key", True, "the key"),)])
def test_run_script_passes_shellcheck(tmp_path: Path, secrets: tuple[SecretPlan, ...]) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    script = tmp_path / "run.sh"
    script.write_bytes(docker.bundle_artifacts(example_plan(secrets=secrets), COMMAND)[0].content)
    result = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, timeout=60)
    assert result.stdout == ""
