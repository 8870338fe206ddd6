"""`podwright local` as a command: what it refuses, and how it says so."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from compiler.deploy.failures import DockerUnavailable, LocalRunFailed
from compiler.deploy.local import command
from compiler.deploy.local.command import Orders, run_local
from compiler.deploy.local.container import ContainerRun
from compiler.deploy.local.own import running_descriptor
from compiler.deploy.local.places import Places
from compiler.deploy.local.ports import Ports
from compiler.deploy.local.run import Seen
from compiler.plan import Plan
from compiler.plan.core import SecretPlan
from tests.cli.command import podwright
from tests.support import subject


@pytest.fixture(scope="module")
def plan() -> Plan:
    return subject("tiny-cpu").plan


def test_help_has_examples_and_a_gpu_profile_is_told_what_to_do(tmp_path: Path) -> None:
    assert "podwright local tiny-cpu --docker" in podwright("local", "--help").out
    run = podwright("local", "nemotron-ada", "--out", str(tmp_path))
    assert run.code == 4 and "needs 1 x NVIDIA RTX 6000 Ada" in run.err and "--docker" in run.err
    assert (tmp_path / "nemotron-ada/bundle.lock").is_file()


def test_options_of_the_container_alone_are_wrong_usage(tmp_path: Path) -> None:
    assert podwright("local", "tiny-cpu", "--network", "host", "--out", str(tmp_path)).code == 2
    assert podwright("local", "tiny-cpu", "--port", "70000", "--out", str(tmp_path)).code == 2


def test_a_failure_is_one_json_document(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = dataclasses.replace(plan, image=dataclasses.replace(plan.image, recipe="vllm-venv"))
    assert run_local(gpu, tmp_path, Orders(as_json=True)) == 4
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False and found["failure"] == "LocalRunFailed" and found["fix"]


def test_a_second_run_of_the_same_folder_names_the_first(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = Places.of(plan.profile, tmp_path, os.environ)
    held = running_descriptor(places)
    assert held is not None
    os.write(held, b"process 77, http://127.0.0.1:8080\n")
    assert run_local(plan, tmp_path, Orders()) == 4
    assert "runs here already: process 77, http://127.0.0.1:8080" in capsys.readouterr().err
    os.close(held)


def test_a_secret_that_only_the_owner_has_is_asked_for_by_name(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("OTHER_SECRET", raising=False)
    more = dataclasses.replace(plan, secrets=(*plan.secrets, SecretPlan("OTHER_SECRET", "other", True, "Needed.")))
    assert run_local(more, tmp_path, Orders()) == 4
    assert "OTHER_SECRET must be set" in capsys.readouterr().err


@pytest.mark.parametrize("as_json", [False, True])
def test_how_to_connect_is_said_in_a_form_that_can_be_pasted(plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    places = Places.of("tiny-cpu", tmp_path, {})
    command._print_connection(plan, places, Ports(8081, 18081, 8079), "k", Seen("serving", serves=True, facts={"phases": {"start": 9.0}}), 12.3, 60.0, as_json=as_json)
    text = capsys.readouterr().out
    if as_json:
        found = json.loads(text)
        assert found["ok"] and found["url"] == "http://127.0.0.1:8081" and found["phases"] == {"start": 9.0} and found["seconds"] == 12.3
        text = f"{found['claude']}\n{found['curl']}"
    assert f'PODWRIGHT_API_KEY="$(cat {places.home}/key)" {places.bundle}/connect.sh http://127.0.0.1:8081 --launch -- --tools Read' in text
    assert "curl http://127.0.0.1:8081/v1/messages -H 'x-api-key: k'" in text


def test_claude_gets_all_its_tools_where_its_prompt_fits(plan: Plan) -> None:
    assert "Read" in command._fewer_tools(plan)
    assert command._fewer_tools(dataclasses.replace(plan, engine=dataclasses.replace(plan.engine, max_model_len=command.WHOLE_CLIENT))) == ""


def container(plan: Plan, folder: Path, network: str | None, **environ: str) -> ContainerRun:
    places = Places.of(plan.profile, folder, {})
    places.home.mkdir(parents=True)
    return ContainerRun(plan, places, Ports(8082, 18081, 8085), "the-key", network, environ)


def test_a_container_needs_dockers_command(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DockerUnavailable):
        container(plan, tmp_path, None).start()


def test_a_container_of_that_name_is_not_replaced(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 0\n", "utf-8")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(LocalRunFailed, match="podwright-tiny-cpu exists already"):
        container(plan, tmp_path, None, PATH=os.environ["PATH"]).start()


def test_a_container_is_started_by_the_bundles_script_with_the_key_in_a_private_file(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n", "utf-8")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    run = container(plan, tmp_path, "host", PATH=os.environ["PATH"])
    script = tmp_path / plan.profile / "run.sh"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\necho "$@" port=$PODWRIGHT_PORT; cat "$PODWRIGHT_SECRETS"; stat -c %a "$PODWRIGHT_SECRETS"\n', "utf-8")
    script.chmod(0o755)
    assert run.start().wait() == 0
    words, key, mode = run.log.read_text("utf-8").splitlines()
    assert words == "--network=host --env=PODWRIGHT_LISTEN=127.0.0.1 --env=PODWRIGHT_STATUS_PORT=8085 --env=VL_PROXY_PORT=8082 port=8082"
    assert key == "PODWRIGHT_API_KEY=the-key" and mode == "600" and not run.left()
