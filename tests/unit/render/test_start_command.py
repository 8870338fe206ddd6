"""The start command: whole after RunPod's storage, small enough for a request, complete on a public image."""

from __future__ import annotations

import base64
import bz2
import io
import json
import re
import subprocess
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.plan.core import Plan, PublishPlan
from compiler.render.payload import EMBEDDED_LIMIT, embedded, render_payload
from compiler.render.start_command import REQUEST_LIMIT, decoded, render_start, render_start_command, start_command, stored_form
from compiler.resolve.start import resolve_entrypoint
from tests.unit.render.plans import MANIFEST, cpu_plan, example_image, example_plan, static_files

FILES = static_files()
BARE = {
    "venv": example_plan(image=example_image(prebaked=False)),
    "openai": example_plan(image=example_image(recipe="vllm-openai", base="vllm/vllm-openai:v0.27.1", prebaked=False, public_entrypoint=True)),
}
WORDS = st.lists(st.text(), max_size=6)


@given(WORDS, WORDS)
def test_any_argv_comes_out_of_storage_whole(cmd: list[str], entrypoint: list[str]) -> None:
    assert decoded(stored_form(cmd, entrypoint)) == (tuple(cmd), tuple(entrypoint))
    assert stored_form(cmd, entrypoint).isascii()


@given(st.text())
def test_any_stored_text_can_be_read(stored: str) -> None:
    cmd, entrypoint = decoded(stored)
    assert all(isinstance(word, str) for word in (*cmd, *entrypoint))


def test_plain_text_is_why_we_store_json() -> None:
    assert decoded(" ".join(["bash", "-lc", "python x"]))[0] == ("bash", "-lc", "python", "x")


@pytest.mark.parametrize("stored", ['{"cmd": "bash"}', '{"cmd": ["a"], "other": 1}', '["a", "b"]', "7"])
def test_json_of_another_shape_is_plain_text(stored: str) -> None:
    assert decoded(stored)[1] == ()


def test_prebaked_pod_runs_the_baked_script_for_exactly_this_manifest() -> None:
    assert start_command(example_plan(), FILES, MANIFEST) == ("/opt/podwright/bootstrap.sh", MANIFEST.sha256)
    assert resolve_entrypoint(example_image()) == ()


@pytest.mark.parametrize("kind", BARE)
def test_public_image_gets_one_script_that_bash_can_parse(kind: str) -> None:
    argv = start_command(BARE[kind], FILES, MANIFEST)
    assert argv[:2] == ("bash", "-c") and len(argv) == 3
    subprocess.run(["bash", "-n", "-c", argv[2]], check=True)
    assert len(argv[2].encode()) < 128 * 1024, "Linux caps one argument"
    assert len(stored_form(argv)) < REQUEST_LIMIT - 16_384, "the rest of the request needs room"


def test_entrypoint_of_a_public_image_is_overridden() -> None:
    assert BARE["openai"].deploy.entrypoint == ("/usr/bin/env",)


def test_script_carries_the_payload_that_it_verifies() -> None:
    small = ("runtime/pod/__main__.py", "runtime/pod/contract.py")
    plan, files = BARE["venv"], {path: content for path, content in FILES.items() if not path.startswith("runtime/") or path in small}
    payload = render_payload(plan, files, MANIFEST)
    assert payload is not None
    script = start_command(plan, files, MANIFEST)[2]
    block = re.search(r"<<'PODWRIGHT_PAYLOAD'\n(.*?)PODWRIGHT_PAYLOAD", script, re.DOTALL)
    assert block and base64.b64decode(block[1]) == payload.content
    assert f"readonly PAYLOAD_SHA256={payload.sha256}" in script
    with tarfile.open(fileobj=io.BytesIO(bz2.decompress(payload.content))) as archive:
        members = {m.name: m for m in archive.getmembers()}
    assert {"manifest.json", "runtime/pod/__main__.py", "bootstrap/torch_probe.py", "common/install-engine.sh", "lock/5-engine.txt"} < set(members)
    assert members["common/install-engine.sh"].mode == 0o755
    assert {m.mtime for m in members.values()} == {0}


def test_payload_is_the_same_whatever_the_order_of_the_files() -> None:
    plan = BARE["venv"]
    backwards = dict(reversed(list(FILES.items())))
    assert render_payload(plan, FILES, MANIFEST) == render_payload(plan, backwards, MANIFEST)


def test_payload_too_large_for_a_request_is_fetched_from_the_publish_repository() -> None:
    noise = b"".join(str(i * i * 7919).encode() for i in range(30_000))
    files = {**FILES, "runtime/pod/large.py": noise}
    plan = example_plan(image=example_image(prebaked=False), publish=PublishPlan("owner/bundles", "p/publication.json", 30.0, "idle", "KEY", False))
    payload = render_payload(plan, files, MANIFEST)
    assert payload is not None and embedded(payload) is None and len(payload.content) > EMBEDDED_LIMIT * 3 / 4
    script = start_command(plan, files, MANIFEST)[2]
    assert "PODWRIGHT_PAYLOAD" not in script and "readonly PAYLOAD_REPO=owner/bundles" in script and payload.sha256 in script


@pytest.mark.parametrize("plan", [example_plan(), BARE["venv"], cpu_plan()])
def test_artifacts_agree_with_each_other(plan: Plan) -> None:
    by_path = {a.path: a for a in render_start(plan, FILES, MANIFEST)}
    assert by_path["bootstrap.sh"].mode == 0o755
    assert tuple(json.loads(by_path["start-command.json"].text)) == start_command(plan, FILES, MANIFEST)
    assert ("payload.tar.bz2" in by_path) is not plan.image.prebaked
    if not plan.image.prebaked:
        assert by_path["bootstrap.sh"].text in start_command(plan, FILES, MANIFEST)[2]


def test_start_command_document_is_ascii_json() -> None:
    assert render_start_command(BARE["venv"], FILES, MANIFEST).content.isascii()
