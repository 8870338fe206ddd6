"""`podwright image --via hf-space` against a Hub over HTTP with Spaces, a registry that asks for the account, and the played RunPod."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compiler.artifact import written
from compiler.deploy.command import Push, run_space_image
from compiler.deploy.connection import Transport, connected
from compiler.deploy.failures import Denied, ImageNotBuilt
from compiler.deploy.registry import RegistryClient
from compiler.deploy.space import Space, SpaceImage, context_of, kept_credential
from compiler.load import data_root, image_files
from compiler.pipeline import Compiled, compiled
from tests.hub_server import WRITER, Hub, hub_server
from tests.hub_spaces import Build, SpaceStub
from tests.runpod_stub import KEY, FakeClock
from tests.runpod_stub_old import OldRunpod
from tests.support import specset
from tests.unit.deploy.servers import Reply, Request, Server, json_reply, serving

NAME = "me/podwright-nemotron-ada"
DIGEST = "sha256:" + "d" * 64
LINES = ["--> FROM docker.io/nvidia/cuda", "#7 [3/9] RUN uv pip install", "--> Pushing image"]


@pytest.fixture(scope="module")
def result() -> Compiled:
    found = compiled(specset("nemotron-ada", {"profile": {"container.name": "registry.hf.space/me-podwright-nemotron-ada:latest"}}), image_files(data_root()))
    assert found.bundle is not None
    return found


@pytest.fixture
def bundle(result: Compiled, tmp_path: Path) -> Path:
    assert result.bundle is not None
    written(result.bundle, tmp_path / "bundle")
    return tmp_path / "bundle"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_server() as server:
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield server


def space(hub: Hub, clock: FakeClock | None = None) -> Space:
    return Space(None, "nemotron-ada", clock=clock or FakeClock(), endpoint=hub.url, token=WRITER)


def test_one_commit_one_build_and_a_pause(hub: Hub, result: Compiled, bundle: Path) -> None:
    stub, told = SpaceStub(hub, Build([LINES], queued=2)), list[str]()
    found = space(hub).build(result.plan, bundle, told.append)
    repo = hub.store.repo(NAME, "space")
    assert repo.private and len(repo.commits) == 2 and found.commit == repo.head.oid, "its first commit is the Hub's own"
    files = {path: blob.content for path, blob in repo.head.files.items() if path != ".gitattributes"}
    assert files == context_of(result.plan, bundle) and "Dockerfile" in files and "image/runtime/pod/guardian.py" in files
    assert b'sdk: "docker"' in files["README.md"] and b"app_port: 8080" in files["README.md"]
    assert told == [f"{NAME}: commit {found.commit[:12]}", *LINES] and stub.asked == ["pause"]
    assert (found.name, found.account) == ("registry.hf.space/me-podwright-nemotron-ada:latest", "me")


def test_the_same_context_is_not_built_again_and_an_older_file_goes(hub: Hub, result: Compiled, bundle: Path) -> None:
    stub = SpaceStub(hub, Build([LINES]))
    first = space(hub).build(result.plan, bundle, lambda line: None)
    told: list[str] = []
    assert space(hub).build(result.plan, bundle, told.append).commit == first.commit and told == [f"{NAME}: it holds this context already"]
    hub.commit(NAME, {"old.txt": b"1"}, kind="space")
    stub.build, stub.stage = Build([LINES]), "PAUSED"
    again = space(hub).build(result.plan, bundle, told.append)
    assert again.commit != first.commit and "old.txt" not in hub.store.repo(NAME, "space").head.files
    assert stub.asked == ["pause", "pause", "restart", "pause"], "a paused Space does not build by itself"


def test_a_log_that_breaks_off_is_followed_on(hub: Hub, result: Compiled, bundle: Path) -> None:
    SpaceStub(hub, Build([LINES[:1], LINES[1:]]))
    told: list[str] = []
    space(hub).build(result.plan, bundle, told.append)
    assert told[1:] == LINES


@pytest.mark.parametrize("stage", ["BUILD_ERROR", "CONFIG_ERROR"])
def test_a_build_that_fails_says_its_last_lines_without_tokens(hub: Hub, result: Compiled, bundle: Path, stage: str) -> None:
    SpaceStub(hub, Build([[*LINES, "the reason, with hf_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]], ends=stage))
    with pytest.raises(ImageNotBuilt) as caught:
        space(hub).build(result.plan, bundle, lambda line: None)
    assert stage in caught.value.what and "the reason, with" in caught.value.why and "hf_aaaa" not in caught.value.why


def test_a_space_that_never_builds_is_given_up(hub: Hub, result: Compiled, bundle: Path) -> None:
    clock = FakeClock()
    began = clock.time()
    SpaceStub(hub, Build([LINES], queued=10_000), stage="RUNNING")
    with pytest.raises(ImageNotBuilt, match="RUNNING after 15 minutes"):
        space(hub, clock).build(result.plan, bundle, lambda line: None)
    assert clock.time() - began < 1000


def test_a_token_that_may_not_write(hub: Hub, result: Compiled, bundle: Path) -> None:
    with pytest.raises(Denied):
        Space(None, "nemotron-ada", clock=FakeClock(), endpoint=hub.url, token="hf_reader").build(result.plan, bundle, lambda line: None)


def test_a_profile_that_bakes_nothing(result: Compiled, bundle: Path) -> None:
    plan = dataclasses.replace(result.plan, image=dataclasses.replace(result.plan.image, prebaked=False))
    with pytest.raises(ImageNotBuilt, match="bakes no image"):
        context_of(plan, bundle)


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
def test_a_private_image_has_a_digest_for_its_account_alone(scheme: str) -> None:
    """By the login itself, and by a token that is handed out for it."""
    right = "Basic bWU6aGZfd3JpdGVy"

    def answer(request: Request) -> Reply:
        sent = {k.lower(): v for k, v in request.headers.items()}.get("authorization")
        if request.path == "/token":
            return json_reply({"token": "handed-out"}) if sent == right else Reply(401)
        if sent != (right if scheme == "Basic" else "Bearer handed-out"):
            return Reply(401, headers={"WWW-Authenticate": f'{scheme} realm="http://{server.address}/token",service="r"'})
        return Reply(200, headers={"Docker-Content-Digest": DIGEST, "Content-Type": "application/vnd.oci.image.index.v1+json"})

    server = Server(answer)
    with serving(server):
        with RegistryClient(login=(server.address, "me", WRITER)) as client:
            assert client.digest(f"{server.address}/me/pod:1") == DIGEST
        with RegistryClient() as client, pytest.raises(Denied):
            client.digest(f"{server.address}/me/pod:1")


@pytest.mark.parametrize("transport", ["v2", "v1"])
def test_a_credential_is_made_once_for_each_token(transport: Transport) -> None:
    image, account = SpaceImage(NAME, "c", "registry.hf.space/me-x:latest", "me", 1.0), OldRunpod(FakeClock())
    with serving(account):
        base = account.url + ("/v1" if transport == "v1" else "")
        with closing(connected("runpod", {"RUNPOD_API_KEY": KEY, "PODWRIGHT_RUNPOD_URL": base}, transport=transport, clock=account.clock)) as provider:
            first = kept_credential(provider, image, "hf_one")
            assert kept_credential(provider, image, "hf_one") == first and kept_credential(provider, image, "hf_two") != first
    assert [(kept["username"], kept["password"]) for kept in account.registries.values()] == [("me", "hf_one"), ("me", "hf_two")]
    assert not any("hf_" in kept["name"] for kept in account.registries.values())


def test_the_command_hands_back_image_digest_lock_and_credential(
    hub: Hub, result: Compiled, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    SpaceStub(hub, Build([LINES]))
    monkeypatch.setattr("compiler.deploy.space.SystemClock", FakeClock)
    monkeypatch.setattr("compiler.deploy.registry.RegistryClient.digest", lambda self, image: DIGEST)
    kept: list[tuple[str, str, str]] = []
    monkeypatch.setattr("compiler.deploy.runpod_v2.RunpodV2.registry_credential", lambda self, *words: kept.append(words) or "cred1")  # type: ignore[func-returns-value]
    monkeypatch.setenv("RUNPOD_API_KEY", "k" * 20)
    specs = specset("nemotron-ada", {"profile": {"container.name": "registry.hf.space/me-podwright-nemotron-ada:latest"}})
    assert run_space_image(result.plan, bundle, None, Push("", specs, tmp_path), transport="v2", as_json=True) == 0
    shown = capsys.readouterr().out
    told = json.loads(shown)
    assert told["pushed"] == f"registry.hf.space/me-podwright-nemotron-ada:latest@{DIGEST}" and told["locked"] and told["registry_auth"] == "cred1"
    assert kept[0][1:] == ("me", WRITER) and kept[0][0].startswith("podwright-hf-me-") and WRITER not in shown
    assert DIGEST in (tmp_path / "locks" / "nemotron-ada.yaml").read_text("utf-8")
    monkeypatch.delenv("RUNPOD_API_KEY")
    assert run_space_image(result.plan, bundle, None, Push("", specs, tmp_path), transport="v2", as_json=False) == 0
    assert "credential was not made at RunPod: RUNPOD_API_KEY is not set" in capsys.readouterr().err
