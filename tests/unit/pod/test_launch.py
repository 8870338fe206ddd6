"""What an engine is started with: host facts, secrets, and what is not for its eyes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pod import launch
from pod.contract import Manifest
from pod.launch import LaunchError, LaunchPlan

from tests.unit.pod.manifests import example_manifest, with_launch

ENVIRON = {"API_KEY": "s3cret", "PATH": "/bin", "HF_TOKEN": "hf_x"}


def launch_plan(manifest: Manifest, environ: dict[str, str]) -> LaunchPlan:
    return launch.launch_plan(manifest, manifest.engine, environ)


def test_the_argv_is_the_manifests_and_the_engine_stays_inside() -> None:
    manifest = example_manifest()
    plan = launch_plan(manifest, ENVIRON)
    assert plan.argv == manifest.engine.launch.argv and plan.port == 18081
    assert plan.env == {"PATH": "/bin", "HF_TOKEN": "hf_x", "A": "1", "B": "2"}


def test_the_engine_sees_no_key_that_it_does_not_need() -> None:
    plan = launch_plan(example_manifest(), {**ENVIRON, "RUNPOD_API_KEY": "rpa_x", "LISTEN_FDS": "1", "HF_HUB_OFFLINE": "1"})
    assert not {"API_KEY", "RUNPOD_API_KEY", "LISTEN_FDS", "HF_HUB_OFFLINE"} & plan.env.keys()


def test_without_a_bridge_the_key_is_the_engines() -> None:
    off = example_manifest(bridge=dataclasses.replace(example_manifest().bridge, mode="off"))
    assert launch_plan(off, ENVIRON).env["VLLM_API_KEY"] == "s3cret"


def test_our_own_folder_is_not_on_the_engines_path() -> None:
    ours = str(Path(launch.__file__).resolve().parents[1])
    assert "PYTHONPATH" not in launch_plan(example_manifest(), {**ENVIRON, "PYTHONPATH": ours}).env
    assert launch_plan(example_manifest(), {**ENVIRON, "PYTHONPATH": f"{ours}:/theirs"}).env["PYTHONPATH"] == "/theirs"


@pytest.mark.parametrize("value", ["", " ", "{{ RUNPOD_SECRET_api-key }}"])
def test_a_missing_secret_is_refused_by_name(value: str) -> None:
    with pytest.raises(LaunchError, match="API_KEY") as caught:
        launch_plan(example_manifest(), {"API_KEY": value})
    assert caught.value.kind == "secret" and "provider" in caught.value.fix


def test_an_endpoint_whose_key_is_missing_is_not_served_open() -> None:
    supervisor = dataclasses.replace(example_manifest().supervisor, secrets=())
    with pytest.raises(LaunchError, match="open to everybody"):
        launch_plan(example_manifest(supervisor=supervisor), {})


def test_an_open_endpoint_stays_open() -> None:
    bridge = dataclasses.replace(example_manifest().bridge, api_key_env=None)
    assert "VLLM_API_KEY" not in launch_plan(example_manifest(bridge=bridge), ENVIRON).env


def test_host_facts_beat_the_manifest() -> None:
    assert launch_plan(example_manifest(), {**ENVIRON, "PODWRIGHT_HOST_ENV": '{"A": "host"}'}).env["A"] == "host"


@pytest.mark.parametrize("text", ["{", "[]", '{"A": 1}'])
def test_broken_host_facts_are_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="PODWRIGHT_HOST_ENV"):
        launch_plan(example_manifest(), {**ENVIRON, "PODWRIGHT_HOST_ENV": text})


def test_the_images_own_files_lie_below_the_root_that_the_bootstrap_was_given() -> None:
    argv = ("vllm", "serve", "/opt/podwright/model", "--chat-template", "/opt/podwrights/x", "--port", "1")
    assert launch.rooted(argv, {"PODWRIGHT_ROOT": "/home/me/r"}) == ("vllm", "serve", "/home/me/r/opt/podwright/model", *argv[3:])
    assert launch.rooted(argv, {}) == argv
    assert launch_plan(with_launch(example_manifest(), argv=argv), {**ENVIRON, "PODWRIGHT_ROOT": "/r"}).argv[2] == "/r/opt/podwright/model"
