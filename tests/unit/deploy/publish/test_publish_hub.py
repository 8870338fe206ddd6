"""Publishing to a Hub over HTTP, with the real huggingface_hub: what arrives, and each way in which it does not."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pod.contract import Manifest
from pod.publication import Publication, verify

from compiler.deploy.publish import repository
from compiler.deploy.signing import SigningKey, write_key
from tests.hub_server import READER, WRITER, Hub
from tests.unit.deploy.publish.conftest import REPO, HastyClock, Publisher
from tests.unit.pod.manifests import example_manifest, with_launch

MANIFEST = example_manifest()


def published(hub: Hub, key: SigningKey | None = None) -> Publication:
    document = hub.read(REPO, "p/publication.json")
    return verify(document, (key.public,) if key else (), allow_unsigned=key is None)


def changed(flag: str) -> Manifest:
    return with_launch(MANIFEST, argv=(*MANIFEST.engine.launch.argv, flag))


def commits(hub: Hub) -> int:
    return len(hub.store.repo(REPO).commits)


def test_one_commit_holds_everything_and_is_signed(publisher: Publisher, hub: Hub, key: SigningKey) -> None:
    ended = publisher(MANIFEST, note="first")
    assert ended.code == 0, ended.err
    publication = published(hub, key)
    assert (publication.sequence, publication.when, publication.note) == (1, "now", "first")
    assert commits(hub) == 2  # the repository's own first one, and ours
    for path, digest in publication.files.items():
        assert hashlib.sha256(hub.read(REPO, path)).hexdigest() == digest
    assert set(publication.files) == {"p/manifest.json", "p/bootstrap.sh", f"payload/{publication.runtime}.tar.bz2"}
    assert hub.store.repo(REPO).head.title == "Publish p 1: first"
    assert "no running pod is known" in ended.out


def test_the_number_grows_and_the_same_is_not_published_twice(publisher: Publisher, hub: Hub) -> None:
    publisher(MANIFEST)
    again = publisher(MANIFEST)
    assert again.code == 0 and commits(hub) == 2 and "the same is published already" in again.out
    assert publisher(changed("--x")).code == 0
    assert published(hub).sequence == 2
    third = publisher(changed("--y"), as_json=True)
    assert third.json["sequence"] == 3 and "engine.launch.argv: --x -> --y" in third.err


def test_a_dry_run_publishes_nothing(publisher: Publisher, hub: Hub) -> None:
    assert publisher(MANIFEST, dry_run=True).code == 0
    assert commits(hub) == 1


def test_without_a_yes_nothing_is_published(publisher: Publisher, hub: Hub) -> None:
    ended = publisher(MANIFEST, yes=False)
    assert ended.code == 4 and "DPL035" in ended.err and commits(hub) == 1


def test_a_damaged_publication_does_not_take_the_number_back(publisher: Publisher, hub: Hub) -> None:
    publisher(MANIFEST)
    publisher(changed("--x"))
    hub.commit(REPO, {"p/publication.json": b"<html>"})
    assert publisher(changed("--y")).code == 0
    assert published(hub).sequence == 3


def test_another_profile_and_a_mirrored_journal_do_not_disturb(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher(MANIFEST)
    real = repository.Repository.file

    def slow(self: Any, path: str, commit: str) -> bytes | None:
        found = real(self, path, commit)
        if len(hub.store.repo(REPO).commits) < 4:
            hub.commit(REPO, {"state/pod.log": str(len(hub.store.repo(REPO).commits)).encode()})
        return found

    monkeypatch.setattr(repository.Repository, "file", slow)
    ended = publisher(changed("--x"))
    assert ended.code == 0, ended.err
    assert published(hub).sequence == 2 and hub.read(REPO, "state/pod.log") == b"3"


def test_two_publishers_cannot_overwrite_each_other_unseen(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher(MANIFEST)
    theirs = hub.read(REPO, "p/publication.json").replace(b'"sequence": 1', b'"sequence": 2')
    real = repository.Repository._committed

    def overtaken(self: Any, *args: Any) -> str:
        if hub.read(REPO, "p/publication.json") != theirs:
            hub.commit(REPO, {"p/publication.json": theirs})
        return real(self, *args)

    monkeypatch.setattr(repository.Repository, "_committed", overtaken)
    ended = publisher(changed("--x"))
    assert ended.code == 4 and "DPL063" in ended.err and "Nothing of ours was published" in ended.err
    assert hub.read(REPO, "p/publication.json") == theirs
    assert b"--x" not in hub.read(REPO, "p/manifest.json")


def test_many_publishers_at_once_lose_nothing(publisher: Publisher, hub: Hub) -> None:
    publisher(MANIFEST)
    parent = hub.store.repo(REPO).head.oid
    ends: list[str] = []

    def one(number: int) -> None:
        try:
            repository.Repository(REPO).commit({"p/publication.json": str(number).encode(), "p/manifest.json": str(number).encode()}, "t", parent, "p/publication.json")
            ends.append("published")
        except repository.Overtaken:
            ends.append("overtaken")

    threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["overtaken"] * 5 + ["published"]
    assert hub.read(REPO, "p/publication.json") == hub.read(REPO, "p/manifest.json")


@pytest.mark.parametrize("token, code", [(READER, "DPL062"), ("hf_nobody", "DPL062")])
def test_no_rights(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str, code: str) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    ended = publisher(MANIFEST)
    assert ended.code == 4 and code in ended.err and commits(hub) == 1 and token not in ended.err + ended.out


def test_a_repository_that_does_not_exist_is_offered(publisher: Publisher, hub: Hub) -> None:
    hub.store.delete(REPO)
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL061" in ended.err and "--create-repo" in ended.err
    with pytest.raises(Exception, match="not found"):
        hub.store.repo(REPO)
    assert publisher(MANIFEST, create_repo=True).code == 0
    assert hub.store.repo(REPO).private and published(hub).sequence == 1


def test_no_token_says_so(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    hub.store.repo(REPO).private = True
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL061" in ended.err and "HF_TOKEN" in ended.err


def test_a_file_over_the_hubs_limit(publisher: Publisher, hub: Hub) -> None:
    hub.fail("status", on="POST .*/commit/", status=413)
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL064" in ended.err and commits(hub) == 1


def test_a_file_that_no_pod_would_read_is_not_uploaded(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "LARGEST_FILE", 1000)
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL064" in ended.err and "payload/" in ended.err and commits(hub) == 1
    assert not hub.asked("^PUT")


def test_half_an_upload_publishes_nothing(publisher: Publisher, hub: Hub) -> None:
    hub.fail("down", on="^PUT /lfs/")
    ended = publisher(MANIFEST)
    assert ended.code == 4 and commits(hub) == 1 and "Nothing was published" in ended.err
    hub.clear()
    assert publisher(MANIFEST).code == 0 and published(hub).sequence == 1


def test_a_commit_whose_answer_got_lost_is_seen_to_be_there(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    real = hub.store.commit

    def silent(*args: Any, **more: Any) -> Any:
        real(*args, **more)
        hub.fail("status", on="POST .*/commit/", status=500, times=9)
        raise ConnectionError

    monkeypatch.setattr(hub.store, "commit", silent)
    ended = publisher(MANIFEST)
    assert ended.code == 0, ended.err
    assert published(hub).sequence == 1 and commits(hub) == 2


def test_a_network_that_breaks_during_the_commit_leaves_nobody_knowing(publisher: Publisher, hub: Hub) -> None:
    hub.fail("down", on="POST .*/preupload/")
    hub.fail("down", on="GET /api/models/me/pods$", times=None)
    hub.faults[1].times = 0
    real, asked = hub.fault_of, []

    def fault(method: str, path: str) -> Any:
        asked.append(path)
        if any("preupload" in p for p in asked[:-1]):
            hub.faults[1].times = None
        return real(method, path)

    hub.fault_of = fault  # type: ignore[method-assign]
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL065" in ended.err and commits(hub) == 1


@pytest.mark.parametrize("fault, said", [("down", "cannot be reached"), ("html", "answers nothing usable"), ("half", "")])
def test_no_network_and_strangers_in_between(publisher: Publisher, hub: Hub, fault: Any, said: str) -> None:
    hub.fail(fault)
    ended = publisher(MANIFEST)
    assert ended.code == 4 and said in ended.err and "fix:" in ended.err and ended.err.count("error:") == 1
    hub.clear()
    assert commits(hub) == 1


def test_an_expired_key_signs_nothing(publisher: Publisher, hub: Hub, key: SigningKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = dataclasses.replace(key, expires=datetime.date(2026, 2, 1))
    write_key(old, tmp_path / "old.key")
    monkeypatch.setenv("PODWRIGHT_SIGNING_KEY", str(tmp_path / "old.key"))
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "expired on 2026-02-01" in ended.err and commits(hub) == 1


def test_a_clock_that_is_wrong_does_not_stretch_a_keys_life(publisher: Publisher, hub: Hub, key: SigningKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = 86400
    yesterday = dataclasses.replace(key, expires=datetime.datetime.fromtimestamp(publisher.clock.time() - day, datetime.UTC).date())
    write_key(yesterday, tmp_path / "old.key")
    monkeypatch.setenv("PODWRIGHT_SIGNING_KEY", str(tmp_path / "old.key"))
    monkeypatch.setattr(publisher.clock, "time", lambda: HastyClock().time() - 20 * day)
    monkeypatch.setattr("compiler.deploy.hub._skew", lambda date: -20.0 * day)
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "expired on" in ended.err and "clock is 20 d 0 h behind the Hub's" in ended.err and commits(hub) == 1


def test_the_hubs_clock_is_read_from_its_answers(hub: Hub) -> None:
    asked = repository.Repository(REPO)
    assert asked.file("none", "main") is None
    assert asked.skew_s is not None and abs(asked.skew_s) < 5


def test_pods_must_trust_the_key(publisher: Publisher, hub: Hub) -> None:
    publisher.plan = dataclasses.replace(publisher.plan, pod_env=())
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL066" in ended.err and "PODWRIGHT_PUBLIC_KEY" in ended.err and commits(hub) == 1


def test_unsigned_needs_the_profiles_word(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PODWRIGHT_SIGNING_KEY", str(tmp_path / "none"))
    refused = publisher(MANIFEST)
    assert refused.code == 4 and "no signing key" in refused.err and commits(hub) == 1
    publisher.plan = dataclasses.replace(publisher.plan, publish=dataclasses.replace(publisher.plan.publish, allow_unsigned=True))
    assert publisher(MANIFEST).code == 0
    assert json.loads(hub.read(REPO, "p/publication.json"))["signature"] is None


def test_a_profile_without_publish_says_what_to_add(publisher: Publisher, hub: Hub) -> None:
    publisher.plan = dataclasses.replace(publisher.plan, publish=dataclasses.replace(publisher.plan.publish, repo=None))
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL060" in ended.err and "publish: {repo: you/pods}" in ended.err


def test_rollback_publishes_the_one_before_under_a_new_number(publisher: Publisher, hub: Hub, key: SigningKey) -> None:
    publisher(MANIFEST)
    publisher(changed("--bad"))
    ended = publisher.rollback()
    assert ended.code == 0, ended.err
    publication = published(hub, key)
    assert publication.sequence == 3 and publication.note == "rollback to 1"
    assert Manifest.from_bytes(hub.read(REPO, "p/manifest.json")) == MANIFEST
    assert publisher.rollback(to=2).code == 0
    assert b"--bad" in hub.read(REPO, "p/manifest.json") and published(hub).sequence == 4


def test_there_must_be_something_to_go_back_to(publisher: Publisher, hub: Hub) -> None:
    publisher(MANIFEST)
    assert "DPL071" in publisher.rollback().err
    assert "DPL071" in publisher.rollback(to=9).err
    assert commits(hub) == 2


def test_no_message_holds_the_token(publisher: Publisher, hub: Hub) -> None:
    for kind in ("down", "html", "half", "status"):
        hub.fail(kind)  # type: ignore[arg-type]
        ended = publisher(MANIFEST)
        hub.clear()
        assert WRITER not in ended.out + ended.err


def test_pods_of_a_provider_that_does_not_answer_are_not_changed_unseen(publisher: Publisher, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher.plan = dataclasses.replace(publisher.plan, target="runpod")
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_" + "x1" * 12)
    monkeypatch.setenv("PODWRIGHT_RUNPOD_URL", "http://127.0.0.1:9")
    ended = publisher(MANIFEST)
    assert ended.code == 4 and "DPL004" in ended.err and commits(hub) == 1
    monkeypatch.delenv("RUNPOD_API_KEY")
    told = publisher(MANIFEST)
    assert told.code == 0 and "pods are not known: RUNPOD_API_KEY is not set" in told.err
