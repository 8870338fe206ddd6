"""The test Hub against the real `huggingface_hub`: other tests may rely on what passes here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
)

from compiler.deploy.hub import _transport_errors
from tests.hub_server import READER, WRITER, Hub, hub_server

SMALL, LARGE = b'{"a": 1}\n', bytes(range(256)) * 400


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with hub_server() as server:
        server.create("me/pods")
        yield server


@pytest.fixture
def api(hub: Hub) -> HfApi:
    return HfApi(endpoint=hub.url, token=WRITER)


def fetched(hub: Hub, folder: Path, name: str, **more: str) -> bytes:
    return Path(hf_hub_download(more.pop("repo", "me/pods"), name, cache_dir=folder, endpoint=hub.url, token=WRITER, **more)).read_bytes()


def test_a_commit_of_small_and_large_files_reads_back(hub: Hub, api: HfApi, tmp_path: Path) -> None:
    done = api.create_commit("me/pods", [CommitOperationAdd("p/manifest.json", SMALL), CommitOperationAdd("payload/x.tar.bz2", LARGE)],
                             commit_message="publish", parent_commit=api.repo_info("me/pods").sha)  # fmt: skip
    assert done.oid == hub.store.repo("me/pods").head.oid == api.repo_info("me/pods").sha
    assert fetched(hub, tmp_path, "p/manifest.json") == SMALL
    assert fetched(hub, tmp_path, "payload/x.tar.bz2") == LARGE
    assert hub.asked("^PUT /lfs/") and hub.asked("^GET /cdn/")
    assert not any("authorization" in s.headers for s in hub.asked("/cdn/"))


def test_a_commit_on_an_old_parent_is_refused(hub: Hub, api: HfApi) -> None:
    parent = api.repo_info("me/pods").sha
    hub.commit("me/pods", {"other": b"someone else"})
    with pytest.raises(HfHubHTTPError) as refused:
        api.create_commit("me/pods", [CommitOperationAdd("mine", b"x")], commit_message="m", parent_commit=parent)
    assert refused.value.response.status_code == 412
    assert "mine" not in hub.store.repo("me/pods").head.files


def test_unchanged_content_makes_no_commit(hub: Hub, api: HfApi) -> None:
    first = api.upload_file(path_or_fileobj=SMALL, path_in_repo="a", repo_id="me/pods")
    assert api.upload_file(path_or_fileobj=SMALL, path_in_repo="a", repo_id="me/pods").oid == first.oid
    assert len(hub.store.repo("me/pods").commits) == 2


def test_deleting_listing_and_history(hub: Hub, api: HfApi) -> None:
    hub.commit("me/pods", {"d/a": b"1", "d/e/b": b"2", "c": b"3"}, "three")
    api.create_commit("me/pods", [CommitOperationDelete("c")], commit_message="less")
    assert set(api.list_repo_files("me/pods")) == {".gitattributes", "d/a", "d/e/b"}
    assert [e.path for e in api.list_repo_tree("me/pods", "d")] == ["d/a", "d/e"]
    assert [i.path for i in api.get_paths_info("me/pods", ["d/a", "nowhere"])] == ["d/a"]
    assert [c.title for c in api.list_repo_commits("me/pods")] == ["less", "three", "initial commit"]


def test_a_snapshot_at_a_commit(hub: Hub, tmp_path: Path) -> None:
    old = hub.commit("me/pods", {"config.json": b"old", "w.safetensors": LARGE})
    hub.commit("me/pods", {"config.json": b"new"})
    folder = Path(snapshot_download("me/pods", revision=old.oid, cache_dir=tmp_path, endpoint=hub.url, token=False))
    assert (folder / "config.json").read_bytes() == b"old" and (folder / "w.safetensors").read_bytes() == LARGE


def test_datasets_are_apart_from_models(hub: Hub, api: HfApi, tmp_path: Path) -> None:
    api.create_repo("me/cache", repo_type="dataset", private=True)
    api.create_repo("me/cache", repo_type="dataset", private=True, exist_ok=True)
    api.upload_file(path_or_fileobj=b"x", path_in_repo="k.txt", repo_id="me/cache", repo_type="dataset")
    assert fetched(hub, tmp_path, "k.txt", repo="me/cache", repo_type="dataset") == b"x"
    assert hub.store.repo("me/cache", "dataset").private
    with pytest.raises(RepositoryNotFoundError):
        api.repo_info("me/cache")


def test_rights(hub: Hub, tmp_path: Path) -> None:
    hub.create("me/secret", private=True)
    hub.create("big/gated", gated=True)
    hub.commit("big/gated", {"config.json": b"{}"})
    reader, nobody, wrong = (HfApi(endpoint=hub.url, token=token) for token in (READER, False, "hf_wrong"))
    for refused in (lambda: nobody.repo_info("me/secret"), lambda: nobody.repo_info("no/such")):
        with pytest.raises(RepositoryNotFoundError):
            refused()
    assert reader.repo_info("me/secret").private
    with pytest.raises(HfHubHTTPError) as forbidden:
        reader.upload_file(path_or_fileobj=b"x", path_in_repo="a", repo_id="me/secret")
    assert forbidden.value.response.status_code == 403
    with pytest.raises(HfHubHTTPError) as unknown:
        wrong.repo_info("me/secret")
    assert unknown.value.response.status_code == 401
    with pytest.raises(GatedRepoError):
        hf_hub_download("big/gated", "config.json", cache_dir=tmp_path, endpoint=hub.url, token=READER)
    hub.store.granted.add(READER)
    assert hf_hub_download("big/gated", "config.json", cache_dir=tmp_path, endpoint=hub.url, token=READER)
    assert reader.whoami()["name"] == "me"


def test_what_is_not_there(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(RemoteEntryNotFoundError):
        fetched(hub, tmp_path, "nothing.json")
    with pytest.raises(HfHubHTTPError):
        fetched(hub, tmp_path, "a", revision="0123456789abcdef0123456789abcdef01234567")


def test_an_etag_saves_the_body_and_a_range_resumes(hub: Hub) -> None:
    hub.commit("me/pods", {"a.txt": b"0123456789"})

    def asked(**headers: str) -> tuple[int, bytes, str]:
        request = urllib.request.Request(f"{hub.url}/me/pods/resolve/main/a.txt", headers={k.replace("_", "-"): v for k, v in headers.items()})
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read(), answer.headers["ETag"]
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read(), answer.headers["ETag"]

    status, body, etag = asked()
    assert (status, body) == (200, b"0123456789")
    assert asked(If_None_Match=etag) == (304, b"", etag)
    assert asked(Range="bytes=4-")[:2] == (206, b"456789")


@pytest.mark.parametrize("fault", [{"kind": "down"}, {"kind": "status", "status": 403}, {"kind": "html"}])
def test_faults_reach_the_real_client(hub: Hub, tmp_path: Path, fault: dict[str, object]) -> None:
    hub.commit("me/pods", {"a.txt": b"abc"})
    hub.fail(**fault)  # type: ignore[arg-type]
    with pytest.raises((LocalEntryNotFoundError, HfHubHTTPError, OSError, *_transport_errors())):
        fetched(hub, tmp_path, "a.txt")
    hub.clear()
    assert fetched(hub, tmp_path, "a.txt") == b"abc"


def test_half_a_file_old_files_slow_answers_and_counts(hub: Hub) -> None:
    hub.commit("me/pods", {"a.txt": b"first version"})
    hub.commit("me/pods", {"a.txt": b"second version"})
    url = f"{hub.url}/me/pods/resolve/main/a.txt"
    hub.fail("half", "resolve-cache", times=1)
    with pytest.raises(Exception, match=r"IncompleteRead"), urllib.request.urlopen(url) as answer:
        answer.read()
    hub.fail("old", "/resolve/", times=1)
    assert urllib.request.urlopen(url).read() == b"first version"
    hub.fail("slow", "/resolve/", times=1, seconds=0.2)
    begun = time.monotonic()
    assert urllib.request.urlopen(url).read() == b"second version"
    assert time.monotonic() - begun >= 0.2
    hub.fail("status", times=1, status=429, retry_after="7")
    with pytest.raises(urllib.error.HTTPError) as busy:
        urllib.request.urlopen(url)
    assert (busy.value.code, busy.value.headers["Retry-After"]) == (429, "7")
    assert urllib.request.urlopen(url).status == 200


def test_a_restart_keeps_port_and_repositories(hub: Hub) -> None:
    with hub_server() as other:
        other.create("a/b")
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{other.url}/api/models/a/b")
    with hub_server(other, other.port):
        assert urllib.request.urlopen(f"{other.url}/api/models/a/b").status == 200


def test_another_process_serves_and_is_driven() -> None:
    root = Path(__file__).parents[2]
    served = subprocess.Popen([sys.executable, "-m", "tests.hub_server", "--repo", "me/pods"], cwd=root, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(root)})
    try:
        assert served.stdout
        url = json.loads(served.stdout.readline())["url"]
        fault = urllib.request.Request(f"{url}/-/faults", json.dumps({"kind": "status", "status": 500}).encode(), method="POST")
        assert json.load(urllib.request.urlopen(fault)) == {"faults": 1}
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/api/models/me/pods")
        urllib.request.urlopen(urllib.request.Request(f"{url}/-/faults", method="DELETE"))
        assert json.load(urllib.request.urlopen(f"{url}/api/models/me/pods"))["id"] == "me/pods"
    finally:
        served.terminate()
        served.wait()
