"""Commits, sizes and hashes from a Hub, over real HTTP with the real client library."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.deploy.failures import BadAnswer, Denied, DeployError, NotFound, ServerBusy, Unreachable
from compiler.deploy.hub import MAX_FILE_BYTES, HubClient, RepoFacts
from compiler.deploy.retry import ATTEMPTS
from tests.unit.deploy.servers import Hub, Reply, Repo, Server, json_reply, serving

SHA = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_" + "x" * 30
NAME = "org/model"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)  # Nothing leaves this machine.
    server = Hub()
    server.repos[NAME] = Repo(SHA, {"a.safetensors": 10, "b.safetensors": 20, "config.json": 3}, {"patch.py": b"print(1)\n"})
    with serving(server):
        yield server


class Asking:
    def __init__(self, server: Server) -> None:
        self.pauses: list[float] = []
        self.said: list[str] = []
        self.client = HubClient(server.url, sleep=self.pauses.append, on_wait=self.said.append)

    def failure(self, kind: type[DeployError], revision: str | None = None, name: str = NAME) -> DeployError:
        with pytest.raises(kind) as caught:
            self.client.facts(name, revision)
        assert type(caught.value) is kind
        assert TOKEN not in caught.value.formatted()
        return caught.value


@pytest.fixture
def asking(hub: Hub) -> Asking:
    return Asking(hub)


def test_commit_and_sizes(hub: Hub, asking: Asking) -> None:
    assert asking.client.facts(NAME) == RepoFacts(NAME, SHA, 33, 30, gated=False)
    assert asking.client.facts(NAME, SHA).revision == SHA
    assert [r.path for r in hub.requests] == [f"/api/models/{NAME}", f"/api/models/{NAME}/revision/{SHA}"]
    assert hub.requests[0].headers["user-agent"].startswith("podwright/")
    assert "authorization" not in hub.requests[0].headers


def test_sizes_that_the_hub_does_not_state_are_unknown_not_zero(hub: Hub, asking: Asking) -> None:
    hub.answer = lambda r: json_reply({"id": NAME, "sha": SHA, "siblings": [{"rfilename": "a.safetensors", "size": 1}, {"rfilename": "b.bin"}]})
    assert asking.client.facts(NAME) == RepoFacts(NAME, SHA, None, 1, gated=False)
    hub.answer = lambda r: json_reply({"id": NAME, "sha": SHA})
    assert asking.client.facts(NAME) == RepoFacts(NAME, SHA, None, None, gated=False)


def test_the_token_of_the_environment_is_sent(hub: Hub, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    asking.client.facts(NAME)
    assert hub.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_hf_endpoint_names_the_server(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url + "/")
    assert HubClient().facts(NAME).revision == SHA
    monkeypatch.setenv("HF_ENDPOINT", "https://user:pass-word@mirror.example.com")
    assert HubClient().host == "mirror.example.com"
    monkeypatch.delenv("HF_ENDPOINT")
    assert HubClient().host == "huggingface.co"


def test_a_gated_repository(hub: Hub, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos[NAME].gated, hub.allowed = "manual", TOKEN
    assert asking.client.facts(NAME).gated is True
    assert asking.client.may_download(NAME) is False
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert asking.client.may_download(NAME) is True


def test_no_such_repository_may_be_a_private_one(asking: Asking) -> None:
    failure = asking.failure(NotFound, name="org/none")
    assert "may not see" in failure.why
    assert "HF_TOKEN" in failure.fix


def test_no_such_commit(asking: Asking) -> None:
    assert "has no commit org/model@ffffffffffff" in asking.failure(NotFound, "f" * 40).what


def test_a_mirror_that_knows_one_commit_only(hub: Hub, asking: Asking) -> None:
    hub.answer = lambda r: json_reply({"id": NAME, "sha": SHA})
    assert f"answers with commit {SHA}" in asking.failure(BadAnswer, "f" * 40).what


def test_a_refused_token_is_named_but_not_shown(hub: Hub, asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.answer = lambda r: json_reply({"error": f"bad {TOKEN}"}, 401, X_Error_Message="Invalid credentials in Authorization header")
    assert "refuses the token" in asking.failure(Denied).what
    hub.answer = lambda r: json_reply({"error": f"bad {TOKEN}"}, 403, X_Error_Code="GatedRepo", X_Error_Message=TOKEN)
    assert f"Open {hub.url}/{NAME}" in asking.failure(Denied, SHA).fix


def test_a_busy_hub_is_asked_again_when_it_says(hub: Hub, asking: Asking) -> None:
    hub.first = [Reply(429, headers={"RateLimit": '"api";r=0;t=12'}), Reply(503, headers={"Retry-After": "3"}), Reply(500)]
    assert asking.client.facts(NAME).revision == SHA
    assert asking.pauses == [12.0, 3.0, 4.0]
    assert asking.said[0] == f"{asking.client.host} answers 429; asking again in 12 s"


def test_a_hub_that_stays_busy(hub: Hub, asking: Asking) -> None:
    hub.answer = lambda r: Reply(429)
    failure = asking.failure(ServerBusy)
    assert len(hub.requests) == ATTEMPTS
    assert "a token in HF_TOKEN raises it" in failure.why


def test_a_hub_that_asks_for_an_hour(hub: Hub, asking: Asking) -> None:
    hub.answer = lambda r: Reply(503, headers={"Retry-After": "3600"})
    assert asking.failure(ServerBusy).fix == "Run it again in 3600 s or later."
    assert len(hub.requests) == 1


def test_a_hub_that_is_gone_is_asked_once(hub: Hub, asking: Asking) -> None:
    hub.answer = lambda r: None
    asking.failure(Unreachable)
    asking.failure(Unreachable, name="org/other")
    assert len(hub.requests) == 1


def test_offline_mode_is_said_to_be_the_reason(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    failure = asking.failure(Unreachable)
    assert "HF_HUB_OFFLINE forbids it" in failure.what
    assert failure.fix == "Unset HF_HUB_OFFLINE for this command."


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"null", b"{}", b'{"id": "org/model"}', b'{"id": "org/model", "sha": "main"}', b'{"id": "a", "sha": 5, "siblings": 3}'])
def test_nonsense_is_no_answer(hub: Hub, asking: Asking, body: bytes) -> None:
    hub.answer = lambda r: Reply(200, body)
    asking.failure(BadAnswer)


def test_a_name_that_the_hub_cannot_have(hub: Hub, asking: Asking) -> None:
    assert "no name of a repository" in asking.failure(NotFound, name="org/mo--del").what
    assert hub.requests == []


def test_the_hash_of_a_file(hub: Hub, asking: Asking) -> None:
    assert asking.client.file_sha256(NAME, "patch.py", SHA) == hashlib.sha256(b"print(1)\n").hexdigest()
    with pytest.raises(NotFound, match=r"has no org/model/none\.py"):
        asking.client.file_sha256(NAME, "none.py", SHA)


def test_an_endless_file_is_cut_off(hub: Hub, asking: Asking) -> None:
    hub.repos[NAME].contents["big.py"] = b"#" * (MAX_FILE_BYTES + 1)
    with pytest.raises(BadAnswer, match="more than"):
        asking.client.file_sha256(NAME, "big.py", SHA)
