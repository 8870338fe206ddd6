"""publish, rollback, journal and secrets as a user types them, with specs of their own and a Hub over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.cli.command import Ended, podwright
from tests.hub_server import WRITER, Hub, hub_server

PROFILE = """\
kind: profile
summary: A profile that publishes.
extends: tiny-cpu
publish: {{repo: me/pods, when: now, reason: To be changed while it runs.}}
journal: {{repo: me/pods, reason: To be read from outside.}}
{settings}env: {{PODWRIGHT_PUBLIC_KEY: {{value: "{key}", reason: Who may publish.}}}}
secrets:
  - {{env: PODWRIGHT_API_KEY, purpose: The key that clients of the endpoint send.}}
  - {{env: HF_TOKEN, purpose: The journal.}}
"""
WIDER = "settings: {max_num_seqs: {value: 32, reason: Fewer are enough.}}\n"


class Desk:
    """A folder with one profile, and commands about it."""

    def __init__(self, folder: Path, hub: Hub, key: str) -> None:
        self.folder, self.hub, self._key = folder, hub, key
        (folder / "specs" / "profiles").mkdir(parents=True)
        self.write()

    def write(self, settings: str = "") -> None:
        (self.folder / "specs" / "profiles" / "mine.yaml").write_text(PROFILE.format(key=self._key, settings=settings))

    def __call__(self, command: str, *args: str) -> Ended:
        return podwright(command, "mine", "--specs", self.folder / "specs", *args)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    for name, value in {"PODWRIGHT_SIGNING_KEY": str(tmp_path / "signing.key"), "PODWRIGHT_API_KEY": "an-endpoint-key", "HF_TOKEN": WRITER, "DOCKER_HOST": "tcp://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    key = json.loads(podwright("keygen", "--json").out)["public_key"]
    with hub_server() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        yield Desk(tmp_path, hub, key)


def test_a_profiles_life_on_the_hub(desk: Desk) -> None:
    missing = desk("publish", "--dry-run")
    assert missing.code == 4 and "DPL061" in missing.err and "--create-repo" in missing.err
    first = desk("publish", "--create-repo", "--yes", "--note", "first")
    assert first.code == 0 and "published as number 1" in first.out and desk.hub.store.repo("me/pods").private
    assert json.loads(desk("publish", "--yes", "--json").out)["result"] == "the same is published already"
    desk.write(WIDER)
    shown = desk("publish", "--dry-run")
    assert shown.code == 0 and "engine.launch.argv: 64 -> 32" in shown.out and "dry run: nothing was published" in shown.out
    assert desk("publish", "--yes", "--note", "narrower").code == 0
    back = desk("rollback", "--yes", "--json")
    assert back.code == 0 and json.loads(back.out)["sequence"] == 3
    titles = [commit.title for commit in desk.hub.store.repo("me/pods").commits[1:]]
    assert titles == ["Publish mine 1: first", "Publish mine 2: narrower", "Publish mine 3: rollback to 1"]


def test_what_lies_in_the_repository_can_start_a_pod(desk: Desk) -> None:
    assert desk("publish", "--create-repo", "--yes").code == 0
    files = desk.hub.store.repo("me/pods").head.files
    publication = json.loads(files["mine/publication.json"].content)["publication"]
    assert set(publication["files"]) == set(files) - {".gitattributes", "mine/publication.json"}
    assert files["mine/bootstrap.sh"].content.startswith(b"#!")


def test_journal_and_secrets_have_words_for_what_is_not_there(desk: Desk) -> None:
    desk.hub.create("me/pods")
    assert "DPL072" in desk("journal").err
    assert desk("journal", "-f", "--json").code == 2
    assert desk("secrets", "--check").code == 0
    assert "DPL082" in desk("secrets", "--prove").err
    assert "DPL081" in desk("secrets", "--create").err
    assert desk("secrets", "--create", "--check").code == 2
    assert desk("publish", "--now", "--idle").code == 2


def test_a_profile_that_does_not_compile_publishes_nothing(desk: Desk) -> None:
    desk.hub.create("me/pods")
    desk.write("settings: {max_num_seqs: {value: 0, reason: Nobody.}}\n")
    ended = desk("publish", "--yes")
    assert ended.code == 1 and len(desk.hub.store.repo("me/pods").commits) == 1


@pytest.mark.parametrize("command", ["publish", "rollback", "journal", "secrets"])
def test_an_unknown_profile_is_named(command: str) -> None:
    ended = podwright(command, "nothing-of-that-name")
    assert ended.code == 1 and "nothing-of-that-name" in ended.err
