"""What `run` starts: levers, host facts, secrets, and the endpoint without a bridge."""

from __future__ import annotations

import dataclasses

import pytest
from pod.contract import KvStore
from pod.launch import LaunchError, launch_plan, with_option

from tests.unit.pod.manifests import example_manifest

ENVIRON = {"API_KEY": "s3cret", "PATH": "/bin"}


def without_bridge():
    return example_manifest(bridge=dataclasses.replace(example_manifest().bridge, mode="off"))


def test_mode_off_starts_the_argv_as_it_stands() -> None:
    manifest = without_bridge()
    plan = launch_plan(manifest, ENVIRON)
    assert plan.argv == manifest.engine.launch.argv
    assert plan.port == 18081
    assert plan.env == {**ENVIRON, "A": "1", "B": "2"}


def test_without_its_bridge_the_engine_takes_the_endpoint_and_its_key() -> None:
    plan = launch_plan(example_manifest(), ENVIRON)
    assert plan.argv[3:7] == ("--host", "0.0.0.0", "--port", "8080")
    assert plan.port == 8080
    assert plan.env["VLLM_API_KEY"] == "s3cret"
    assert "bridge mode translate is not part of this runtime version" in plan.notes[0]
    assert not any("s3cret" in note for note in plan.notes)


def test_an_open_endpoint_stays_open() -> None:
    bridge = dataclasses.replace(example_manifest().bridge, api_key_env=None)
    assert "VLLM_API_KEY" not in launch_plan(example_manifest(bridge=bridge), ENVIRON).env


@pytest.mark.parametrize("value", ["", "{{ RUNPOD_SECRET_api-key }}"])
def test_a_missing_secret_is_refused_by_name(value: str) -> None:
    with pytest.raises(LaunchError, match="API_KEY"):
        launch_plan(example_manifest(), {"API_KEY": value})


def test_an_endpoint_whose_key_is_missing_is_not_served_open() -> None:
    supervisor = dataclasses.replace(example_manifest().supervisor, secrets=())
    with pytest.raises(LaunchError, match="open to everybody"):
        launch_plan(example_manifest(supervisor=supervisor), {})


def test_a_kv_store_is_refused() -> None:
    with pytest.raises(LaunchError, match="LMCache"):
        launch_plan(example_manifest(kv_store=KvStore(("lmcache",), 8, 1600, 5555, 8090)), ENVIRON)


def test_host_facts_beat_the_manifest() -> None:
    plan = launch_plan(without_bridge(), {**ENVIRON, "PODWRIGHT_HOST_ENV": '{"A": "host"}'})
    assert plan.env["A"] == "host"


@pytest.mark.parametrize("text", ["{", "[]", '{"A": 1}'])
def test_broken_host_facts_are_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="PODWRIGHT_HOST_ENV"):
        launch_plan(without_bridge(), {**ENVIRON, "PODWRIGHT_HOST_ENV": text})


def test_levers_replace_and_append() -> None:
    plan = launch_plan(without_bridge(), {**ENVIRON, "VL_SEQS": "8", "VL_EP": "on"})
    assert plan.argv[-3:] == ("--max-num-seqs", "8", "--enable-expert-parallel")
    off = launch_plan(without_bridge(), {**ENVIRON, "VL_EP": "off", "VL_BRIDGE": "on"})
    assert off.argv[-1] == "--no-enable-expert-parallel"
    assert any("VL_BRIDGE" in note and "does not honour" in note for note in off.notes)


def test_a_lever_with_a_value_that_it_may_not_have_is_refused() -> None:
    with pytest.raises(LaunchError, match="VL_SEQS"):
        launch_plan(without_bridge(), {**ENVIRON, "VL_SEQS": "8; rm -rf /"})


def test_with_option_takes_every_spelling_out() -> None:
    argv = ("x", "--a", "1", "2", "--b=3", "--a=4", "--no-a", "--c")
    assert with_option(argv, "--a", "9") == ("x", "--a", "9", "--b=3", "--c")
    assert with_option(argv, "--d", "9")[-2:] == ("--d", "9")
