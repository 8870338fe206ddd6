"""What a living runtime does to disk before a start: NCCL's file, repairs of checkpoint and engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pod.contract import ConfigPatch, Fetch, Manifest, ScriptPatch

from tests.hub_server import Hub, hub_server
from tests.unit.pod.living import RUNTIME, Pod, free_port, living, toy_manifest
from tests.unit.pod.manifests import with_launch
from tests.unit.pod.patches.engines import FILES, content, engine

SCRIPT = "import importlib.util as u, pathlib\np = pathlib.Path(SITE) / 'vllm/envs.py'\np.write_text('A = 2\\n')\n"
LIST = ConfigPatch("config.json", ("quantization_config", "ignore"), ("mtp",), "why")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create("o/model")
        server.commit("o/model", {"config.json": b'{"quantization_config": {}}', "model.bin": b"w" * 1000})
        server.create("o/patches")
        yield server


def manifest_for(**launch: Any) -> Manifest:
    return with_launch(toy_manifest(port=free_port(), endpoint=free_port()), fetch=(Fetch("model", "o/model", None, None),), **launch)


def environ(hub: Hub, folder: Path) -> dict[str, str]:
    """An environment whose engine lies in a folder of its own."""
    engine(folder / "site")
    return {**hub.env(), "HF_HOME": str(folder / "hf"), "PYTHONPATH": f"{RUNTIME}:{folder / 'site'}"}


def script_patch(hub: Hub, folder: Path, **changes: Any) -> ScriptPatch:
    text = SCRIPT.replace("SITE", repr(str(folder / "site"))).encode()
    hub.commit("o/patches", {"patch.py": text})
    expects = {"vllm/envs.py": hashlib.sha256(FILES["vllm/envs.py"].encode()).hexdigest()}
    given = {"sha256": hashlib.sha256(text).hexdigest(), "releases": ("0.27.1",), "expects": expects} | changes
    return ScriptPatch("patch.py", "o/patches", reason="why", **given)


def said(pod: Pod, kind: str) -> list[str]:
    return [line["message"] for line in pod.ask("GET", "/journal?lines=500")[1]["lines"] if line["kind"] == kind]


def test_nccl_s_own_file_holds_the_settings_that_workers_do_not_inherit(tmp_path: Path, hub: Hub) -> None:
    manifest = manifest_for(nccl_conf={"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"})
    with living(tmp_path, manifest, environ(hub, tmp_path)) as pod:
        pod.serves()
        assert (tmp_path / ".nccl.conf").read_text() == "NCCL_IB_DISABLE=1\nNCCL_P2P_DISABLE=1\n"


def test_checkpoint_and_engine_are_repaired_before_the_start_and_once(tmp_path: Path, hub: Hub) -> None:
    manifest, env = manifest_for(config_patches=(LIST,), script_patches=(script_patch(hub, tmp_path),)), environ(hub, tmp_path)
    for ending in (("now holds mtp", "changed vllm/envs.py"), ("already holds mtp", "its changes of 1 files are there")):
        with living(tmp_path, manifest, env) as pod:
            pod.serves()
            assert [message.partition(": ")[2].split(": ")[-1] for message in said(pod, "patch")[-2:]] == list(ending)
            assert pod.end() == 0
        env = {**env, "HF_ENDPOINT": "http://127.0.0.1:9"}
    config = next((tmp_path / "hf/hub").rglob("snapshots/*/config.json"))
    assert json.loads(config.read_text()) == {"quantization_config": {"ignore": ["mtp"]}}
    assert content(tmp_path / "site")["vllm/envs.py"] == "A = 2\n"


@pytest.mark.parametrize(("changes", "cause"), [({"sha256": None}, "has no sha256"), ({"releases": ("0.28.0",)}, "is for engine 0.28.0, and 0.27.1 is installed")])
def test_a_repair_that_must_not_be_made_is_fatal_with_its_reason(tmp_path: Path, hub: Hub, changes: dict[str, Any], cause: str) -> None:
    manifest = manifest_for(script_patches=(script_patch(hub, tmp_path, **changes),))
    with living(tmp_path, manifest, environ(hub, tmp_path)) as pod:
        status = pod.until(lambda s: s["state"] == "fatal", "fatal")
        assert status["fatal"]["code"] == "patch" and cause in status["fatal"]["cause"]
        assert content(tmp_path / "site") == FILES
