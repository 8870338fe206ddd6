"""A checkpoint on a Hub, over real HTTP: small files and beginnings of large ones, by range, with the account's token; and what a Hub refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.checkpoint import checkpoint_facts
from compiler.deploy.checkpoint import folder_checkpoint, hub_checkpoint
from compiler.deploy.failures import BadAnswer, Denied, DeployError, NotFound, Unreachable
from compiler.deploy.hub import HubClient
from tests.checkpoints import dense, small, write_checkpoint
from tests.hub_server import READER, Hub, hub_server

NAME = "org/small"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = small()
    return write_checkpoint(tmp_path / "small", config, dense(config, "bf16"), 3, README__md="# small")


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    with hub_server() as server:
        server.create(NAME)
        server.commit(NAME, {path.name: path.read_bytes() for path in folder.iterdir()})
        yield server


def client(hub: Hub) -> HubClient:
    return HubClient(hub.url, sleep=lambda seconds: None)


def test_the_hub_and_the_folder_say_the_same(hub: Hub, folder: Path) -> None:
    said: list[str] = []
    there, problems = hub_checkpoint(client(hub), NAME, progress=said.append)
    here, more = folder_checkpoint(folder)
    assert problems == more == []
    assert (there.shards, there.texts) == (here.shards, here.texts)
    assert there.sizes == here.sizes | {".gitattributes": there.sizes[".gitattributes"]}
    assert (there.repo, there.revision) == (NAME, hub.store.repo(NAME).head.oid)
    facts, found = checkpoint_facts(there)
    assert found == [] and facts is not None
    assert said[-1] == "weight headers: 3 of 3"


def test_weights_are_asked_for_by_range_as_ourselves(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", READER)
    hub_checkpoint(client(hub), NAME)
    asked = hub.asked(r"^GET /org/small/resolve/.*safetensors$")
    assert len(asked) == 3
    assert all(s.headers["range"].startswith("bytes=0-") for s in asked)
    assert all(s.headers["user-agent"].startswith("podwright/") and s.headers["authorization"] == f"Bearer {READER}" for s in asked)


def test_a_commit_can_be_asked_for(hub: Hub) -> None:
    first = hub.store.repo(NAME).head.oid
    hub.commit(NAME, {"config.json": b"{}"})
    files, _ = hub_checkpoint(client(hub), NAME, first)
    assert json.loads(files.texts["config.json"])["num_hidden_layers"] == 2


def refused(hub: Hub, kind: type[DeployError], name: str = NAME) -> DeployError:
    with pytest.raises(kind) as caught:
        hub_checkpoint(client(hub), name)
    return caught.value


def test_no_such_repository(hub: Hub) -> None:
    assert "has no org/none" in refused(hub, NotFound, "org/none").what


def test_a_gated_repository_says_what_to_accept(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.create("org/gated", gated=True)
    hub.commit("org/gated", {path.name: path.read_bytes() for path in folder.iterdir()})
    error = refused(hub, Denied, "org/gated")
    assert "accept the licence" in error.fix and "HF_TOKEN" in error.fix
    monkeypatch.setenv("HF_TOKEN", READER)
    hub.store.granted.add(READER)
    files, _ = hub_checkpoint(client(hub), "org/gated")
    assert files.gated is True


def test_no_network(hub: Hub) -> None:
    hub.fail("down")
    assert "cannot be reached" in refused(hub, Unreachable).what


def test_a_page_instead_of_the_hub(hub: Hub) -> None:
    hub.fail("html", on="/api/models/")
    assert "answers nothing usable" in refused(hub, BadAnswer).what


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is no folder"):
        folder_checkpoint(tmp_path / "none")
