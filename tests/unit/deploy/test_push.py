"""A push without an engine: names, the engine's messages, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.deploy.failures import BadReference
from compiler.deploy.push import ImageNotPushed, _digest, push_name

DIGEST = "sha256:" + "c" * 64


@pytest.mark.parametrize(("target", "own", "name"), [
    ("ghcr.io/me/pod", "podwright/x:0.27.1", "ghcr.io/me/pod:0.27.1"), ("ghcr.io/me/pod:2", "podwright/x:0.27.1", "ghcr.io/me/pod:2"),
    ("127.0.0.1:5000/me/pod", "podwright/x", "127.0.0.1:5000/me/pod:latest"), ("me/pod", "host:5000/x", "me/pod:latest")])  # fmt: skip
def test_the_tag_is_the_profiles_where_none_is_given(target: str, own: str, name: str) -> None:
    assert push_name(target, own) == name


@pytest.mark.parametrize("target", ["podwright/pod:1", f"ghcr.io/me/pod@{DIGEST}", "Not A Name", "https://ghcr.io/me/pod"])
def test_names_that_nothing_can_be_pushed_under(target: str) -> None:
    with pytest.raises(BadReference):
        push_name(target, "podwright/x:1")


def test_progress_is_told_once_a_change_and_the_digest_is_the_registrys() -> None:
    told: list[str] = []
    stream: list[Any] = [{"status": "Preparing", "id": "a"}, {"status": "Pushing", "id": "a"}, {"status": "Pushing", "id": "a", "progress": "="}, {"status": "Pushed", "id": "a"},
                         "nonsense", {"aux": {"Tag": "1", "Digest": DIGEST, "Size": 5}}]  # fmt: skip
    assert _digest(iter(stream), "n:1", told.append) == DIGEST
    assert told == ["push a: Preparing", "push a: Pushing", "push a: Pushed"]


@pytest.mark.parametrize(("said", "cure"), [
    ("denied: requested access to the resource is denied", "docker login"), ("http: server gave HTTP response to HTTPS client", "insecure-registries"),
    ("dial tcp: lookup nowhere: no such host", "network"), ("toomanyrequests: slow down", "wait"), ("something new", "same command")])  # fmt: skip
def test_refusals(said: str, cure: str) -> None:
    with pytest.raises(ImageNotPushed) as caught:
        _digest(iter([{"status": "Preparing", "id": "a"}, {"error": said, "errorDetail": {"message": said}}]), "n:1", lambda text: None)
    assert said in caught.value.what and cure in caught.value.fix
    assert caught.value.code == "DPL095"


def test_a_push_that_ends_without_a_digest() -> None:
    with pytest.raises(ImageNotPushed, match="without a digest"):
        _digest(iter([{"aux": {"Digest": "md5:1"}}]), "n:1", lambda text: None)
