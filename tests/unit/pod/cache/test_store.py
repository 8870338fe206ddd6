"""Restore and publish through a Hub over HTTP, as the supervisor does it: `python -m pod.cache`."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod.cache.archive import pack
from pod.cache.seal import Seal
from pod.cache.store import Job, Place, Stored
from pod.contract import CompileCache
from pod.strict_json import decoded

from tests.hub_server import READER, WRITER, Hub, hub_server
from tests.unit.pod.cache.archives import SEAL, archive_of, content_of, folder_of, manifest_of, member
from tests.unit.pod.hub.transfers import env_of

pytestmark = pytest.mark.living

REPO = "owner/cache"
FILES = {"torch_compile_cache/aa/rank_0/model": b"graph" * 1000, "modelinfos/m.json": b"{}"}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.of(
        CompileCache(REPO, "a" * 16, {"model": "owner/model@abc", "gpu": "NVIDIA A40"}), {"driver": "580"}, str(tmp_path / "pod" / "vllm")
    )


def step(command: str, place: Place, hub: Hub, token: str | None = WRITER, *more: str, seal: Seal = SEAL) -> Stored:
    done = subprocess.run([sys.executable, "-m", "pod.cache", command, *more], input=json.dumps(dataclasses.asdict(Job(place, seal))),
                          env=env_of(hub, token), capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    line = json.loads(done.stdout)
    assert line.pop("event") == "result"
    return decoded(Stored, line)


def another_pod(place: Place, tmp_path: Path) -> Place:
    return dataclasses.replace(place, root=str(tmp_path / "other" / "vllm" / f"compile-{place.key}"))


def test_a_first_start_misses_and_publishes_and_another_pod_hits(hub: Hub, place: Place, tmp_path: Path) -> None:
    miss = step("restore", place, hub)
    assert miss.kind == "miss" and miss.key == place.key and not Path(place.root).exists(), miss
    folder_of(Path(place.root), FILES)
    published = step("publish", place, hub, WRITER, "--cold-start-s=51.4")
    assert published.kind == "published" and published.unpacked_bytes == sum(map(len, FILES.values())), published
    assert hub.store.repo(REPO, "dataset").private
    other = another_pod(place, tmp_path)
    hit = step("restore", other, hub, READER)
    assert hit.kind == "hit" and hit.cold_start_s == 51.4 and hit.archive_bytes == published.archive_bytes, hit
    assert {k: v for k, v in content_of(Path(other.root)).items() if not k.startswith(".")} == FILES
    assert [p.name for p in (tmp_path / "other" / "vllm").iterdir()] == [f"compile-{place.key}"], "no archive is left"


def test_it_is_published_once(hub: Hub, place: Place, tmp_path: Path) -> None:
    folder_of(Path(place.root), FILES)
    assert step("publish", place, hub).kind == "published"
    commits = len(hub.store.repo(REPO, "dataset").commits)
    hub.seen.clear()
    assert step("publish", place, hub).kind == "known" and step("restore", place, hub).kind == "kept"
    assert hub.seen == [], "this pod knows it without asking"
    other = another_pod(place, tmp_path)
    folder_of(Path(other.root), FILES)
    known = step("publish", other, hub)
    assert known.kind == "known" and len(hub.store.repo(REPO, "dataset").commits) == commits


def test_a_folder_that_was_emptied_is_restored_again(hub: Hub, place: Place) -> None:
    folder_of(Path(place.root), FILES)
    step("publish", place, hub)
    shutil.rmtree(place.root)
    assert step("restore", place, hub).kind == "hit"


def test_a_start_that_compiled_nothing_publishes_nothing(hub: Hub, place: Place) -> None:
    assert step("publish", place, hub).kind == "empty"
    with pytest.raises(Exception, match="not found"):
        hub.store.repo(REPO, "dataset")


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x1f\x8b\x08\x00half"])
def test_an_archive_that_is_damaged_is_refused_and_the_start_goes_on(hub: Hub, place: Place, content: bytes) -> None:
    hub.create(REPO, kind="dataset")
    hub.commit(REPO, {place.name(SEAL): content}, kind="dataset")
    stored = step("restore", place, hub)
    assert stored.kind == "refused" and place.name(SEAL) in stored.detail and not Path(place.root).exists(), stored


OTHER = Seal.of("the key after a rotation of it")


def test_another_key_of_the_endpoint_finds_nothing_and_publishes_beside_it(hub: Hub, place: Place, tmp_path: Path) -> None:
    folder_of(Path(place.root), FILES)
    assert step("publish", place, hub).kind == "published"
    other = another_pod(place, tmp_path)
    missed = step("restore", other, hub, seal=OTHER)
    assert missed.kind == "miss" and "a former key's is not used" in missed.detail, missed
    folder_of(Path(other.root), FILES)
    assert step("publish", other, hub, seal=OTHER).kind == "published"
    shutil.rmtree(other.root)
    assert step("restore", other, hub, seal=OTHER).kind == "hit"


def test_an_archive_of_somebody_without_the_key_is_refused_unopened(hub: Hub, place: Place, tmp_path: Path) -> None:
    """Whoever writes to the dataset knows the file's name, and how to pack."""
    files = folder_of(tmp_path / "evil", {"torch_compile_cache/aa/x.py": b"import os"})
    pack(files, tmp_path / "x", OTHER, place.key, place.parts)
    hub.create(REPO, kind="dataset")
    hub.commit(REPO, {place.name(SEAL): (tmp_path / "x").read_bytes()}, kind="dataset")
    stored = step("restore", place, hub)
    assert stored.kind == "refused" and "without the endpoint's key" in stored.detail and not Path(place.root).exists(), stored


def test_an_archive_of_another_key_is_refused(hub: Hub, place: Place, tmp_path: Path) -> None:
    hub.create(REPO, kind="dataset")
    archive = archive_of(tmp_path / "x", [member("a", b"1")], manifest_of({"a": b"1"}))
    hub.commit(REPO, {place.name(SEAL): archive.read_bytes()}, kind="dataset")
    assert "is for key 0123456789abcdef" in step("restore", place, hub).detail


def test_an_archive_that_climbs_out_is_refused(hub: Hub, place: Place, tmp_path: Path) -> None:
    hub.create(REPO, kind="dataset")
    archive = archive_of(tmp_path / "x", [member("../../owned", b"1")], manifest_of({"../../owned": b"1"}, place.key))
    hub.commit(REPO, {place.name(SEAL): archive.read_bytes()}, kind="dataset")
    assert step("restore", place, hub).kind == "refused" and not list(tmp_path.rglob("owned"))


def test_a_token_that_may_not_write_costs_only_the_cache(hub: Hub, place: Place) -> None:
    hub.create(REPO, kind="dataset")
    folder_of(Path(place.root), FILES)
    stored = step("publish", place, hub, READER)
    assert stored.kind == "failed" and "may not write" in stored.detail and READER not in stored.detail


def test_a_hub_that_is_gone_costs_only_the_cache(place: Place) -> None:
    with hub_server() as gone:
        pass
    assert step("restore", place, gone).kind == "failed"


def test_a_full_disk_costs_only_the_cache(hub: Hub, place: Place, tmp_path: Path) -> None:
    folder_of(Path(place.root), {"x": os.urandom(6 << 20)})
    assert step("publish", place, hub).kind == "published"
    mount = tmp_path / "small"
    mount.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mount)], capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a tmpfs needs root")
    try:
        stored = step("restore", dataclasses.replace(place, root=str(mount / "vllm" / "k")), hub)
        assert stored.kind == "failed" and list((mount / "vllm").glob("*")) == [], stored
    finally:
        subprocess.run(["umount", str(mount)], check=True)


@pytest.mark.parametrize("text", ["", "{}", '{"repo": 1}'])
def test_input_that_is_no_job(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pod.cache", "restore"], input=text, env=env_of(Hub()), capture_output=True, text=True, check=False
    )
    assert done.returncode == 65 and done.stderr.startswith("standard input: ")


def test_the_supervisor_s_side_loads_nothing_heavy() -> None:
    code = "import sys, pod.cache.store, pod.cache.key; print([m for m in ('huggingface_hub', 'httpx', 'asyncio') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], env=env_of(Hub()), capture_output=True, text=True, check=True).stdout == "[]\n"
