"""What a living runtime does to disk before a start: NCCL's file, repairs of checkpoint and engine."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pod.contract import ConfigPatch, Fetch, Manifest, ScriptPatch
from pod.patches.upgrades import Upgrade, add, note_of, read

from tests.hub_server import Hub, hub_server
from tests.unit.pod.living import RUNTIME, TOY, Pod, free_port, living, toy_manifest
from tests.unit.pod.manifests import with_launch
from tests.unit.pod.patches.engines import FILES, content, engine

pytestmark = pytest.mark.living

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


def test_a_distribution_with_which_the_engine_does_not_start_is_taken_back_and_the_pod_serves(tmp_path: Path, hub: Hub) -> None:
    """As the bootstrap leaves it: version 2.0 of something in place of 1.0, its imports right, and an engine that ends with it."""
    site, install, picky = tmp_path / "site", tmp_path / "install.sh", tmp_path / "picky.py"
    (site / "thing-2.0.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\\nName: thing\\nVersion: %s\\n"
    (site / "thing-2.0.dist-info/METADATA").write_text(metadata.encode().decode("unicode_escape") % "2.0")
    install.write_text(f'#!/bin/bash\ncd "{site}"; mv thing-*.dist-info "thing-${{2##*==}}.dist-info"\nprintf "{metadata}" "${{2##*==}}" >thing-*/METADATA\nenv >"{tmp_path}/seen"\n')
    install.chmod(0o755)
    picky.write_text(f"import importlib.metadata as m, runpy, sys\nif m.version('thing') != '1.0': sys.exit(7)\nrunpy.run_path({TOY!r}, run_name='__main__')\n")
    add(note_of({"PODWRIGHT_ROOT": str(tmp_path / "root")}), (str(install), sys.executable), Upgrade("thing", "1.0", "2.0"))
    manifest = manifest_for()
    manifest = with_launch(manifest, argv=(sys.executable, str(picky), *manifest.engine.launch.argv[2:]))
    with living(tmp_path, manifest, {**environ(hub, tmp_path), "PODWRIGHT_ROOT": str(tmp_path / "root")}) as pod:
        status = pod.serves()
        assert said(pod, "upgrade") == ["no engine has served since thing 2.0 in place of 1.0: taken back, once, and started again",
                                        "thing==1.0 is back; the engine did not start with 2.0"]  # fmt: skip
        assert status["restarts"]["engine"] == [] and pod.complete()[0] == 200
    assert "k3y-for-tests" not in (tmp_path / "seen").read_text() and "HF_TOKEN" not in (tmp_path / "seen").read_text()
    assert [row.state for row in read(note_of({"PODWRIGHT_ROOT": str(tmp_path / "root")})).rows] == ["tried"]


def test_a_start_that_serves_settles_what_was_replaced(tmp_path: Path, hub: Hub) -> None:
    note = note_of({"PODWRIGHT_ROOT": str(tmp_path / "root")})
    add(note, ("false",), Upgrade("thing", "1.0", "2.0"))
    with living(tmp_path, manifest_for(), {**environ(hub, tmp_path), "PODWRIGHT_ROOT": str(tmp_path / "root")}) as pod:
        pod.serves()
        assert [row.state for row in read(note).rows] == ["proved"] and said(pod, "upgrade") == []
