"""From a signed publish by the real client to a manifest in the pod, over HTTP, and every way in which that must not work."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from huggingface_hub import CommitOperationAdd, HfApi, constants
from pod.contract import Follow, Manifest
from pod.hub.follow import fetch_files
from pod.hub.poll import Poller, Quiet, Received, Refused, Trouble
from pod.publication import Publication, Taken, payload_path, sign, unsigned

from tests.hub_server import READER, WRITER, Hub, hub_server
from tests.unit.pod.manifests import example_manifest, with_launch

PRIVATE, OTHER = b"\x01" * 32, b"\x02" * 32
PUBLIC = Ed25519PrivateKey.from_private_bytes(PRIVATE).public_key().public_bytes_raw().hex()
OTHER_PUBLIC = Ed25519PrivateKey.from_private_bytes(OTHER).public_key().public_bytes_raw().hex()
FOLLOW = Follow("me/pods", "p/publication.json", 30.0, "idle", "KEYS", False)
RUNTIME = b"a new runtime"
RUNTIME_SHA = hashlib.sha256(RUNTIME).hexdigest()


def written(manifest: Manifest) -> bytes:
    return json.dumps(manifest.to_json(), indent=2).encode()


MANIFEST = written(example_manifest())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with hub_server() as server:
        server.create("me/pods", private=True)
        yield server


def publication(sequence: int = 1, manifest: bytes = MANIFEST, **more: Any) -> Publication:
    files = {"p/manifest.json": hashlib.sha256(manifest).hexdigest(), payload_path(RUNTIME_SHA): RUNTIME_SHA}
    return dataclasses.replace(Publication(1, "p", sequence, 0.0, "now", files, RUNTIME_SHA, ""), **more)


def publish(hub: Hub, document: bytes, manifest: bytes = MANIFEST) -> None:
    files = {"p/publication.json": document, "p/manifest.json": manifest, payload_path(RUNTIME_SHA): RUNTIME}
    HfApi(endpoint=hub.url, token=WRITER).create_commit("me/pods", [CommitOperationAdd(p, c) for p, c in files.items()], commit_message="publish")


class Pod:
    """A pod that looks, and takes over what it receives."""

    def __init__(self, hub: Hub, *, last: Taken | None = None, follow: Follow = FOLLOW, keys: str = PUBLIC) -> None:
        self.poller = Poller(follow, {**hub.env(READER), "KEYS": keys}, last, random.Random(1))
        self.now = 0.0

    def look(self, take: bool = True) -> Quiet | Trouble | Refused | Received:
        self.now = max(self.now + 1.0, self.poller.next_at)
        found = self.poller.poll(self.now)
        if take and isinstance(found, Received):
            self.poller.took(found.publication)
        return found


def refused(found: object) -> Refused:
    assert isinstance(found, Refused), found
    return found


def test_a_publish_arrives_once_and_whole(hub: Hub) -> None:
    pod = Pod(hub)
    assert pod.look() == Trouble("not-found", "nothing was published there yet, or the token may not see it", True)
    publish(hub, sign(publication(), PRIVATE))
    found = pod.look()
    assert isinstance(found, Received) and found.manifest == example_manifest() and found.document == MANIFEST
    path = found.publication.runtime_path
    assert path and fetch_files(found.base, found.publication, [path], READER) == {path: RUNTIME}
    assert pod.look() == Quiet() == pod.look()
    changed = written(with_launch(example_manifest(), env={"A": "3"}))
    publish(hub, sign(publication(2, changed), PRIVATE), changed)
    assert isinstance(pod.look(), Received)


def test_what_was_not_taken_over_comes_again(hub: Hub) -> None:
    publish(hub, sign(publication(), PRIVATE))
    pod = Pod(hub)
    assert isinstance(pod.look(take=False), Received) and isinstance(pod.look(take=False), Received)


def test_a_restarted_supervisor_knows_what_is_in_force(hub: Hub) -> None:
    publish(hub, sign(publication(5), PRIVATE))
    taken = Taken(5, publication(5).sha256())
    pod = Pod(hub, last=taken)
    assert pod.look() == Quiet()
    assert pod.look() == Quiet() and hub.seen[-1].status == 307, "the second look costs one small answer"


@pytest.mark.parametrize(("document", "code"), [
    (b"{", "not-json"), (b"[]", "malformed"), (unsigned(publication()), "unsigned"), (sign(publication(), OTHER), "unknown-key"),
    (sign(publication(), PRIVATE).replace(b'"sequence": 1', b'"sequence": 9'), "bad-signature"),
])  # fmt: skip
def test_a_publication_that_cannot_be_trusted_is_refused_once_and_the_next_good_one_heals(hub: Hub, document: bytes, code: str) -> None:
    pod = Pod(hub)
    publish(hub, document)
    assert refused(pod.look()).code == code
    assert pod.look() == Quiet()
    publish(hub, sign(publication(), PRIVATE))
    assert isinstance(pod.look(), Received)


def test_a_huge_file_in_its_place_is_never_read(hub: Hub) -> None:
    pod = Pod(hub)
    publish(hub, b" " * 70_000)
    first, second = pod.look(), pod.look()
    assert isinstance(first, Trouble) and (first.code, first.is_news) == ("too-large", True)
    assert isinstance(second, Trouble) and not second.is_news
    publish(hub, sign(publication(), PRIVATE))
    assert isinstance(pod.look(), Received)


def test_replays_are_refused(hub: Hub) -> None:
    old, new, again = (sign(publication(n, note=t), PRIVATE) for n, t in ((1, ""), (2, ""), (2, "changed")))
    pod = Pod(hub)
    publish(hub, old)
    publish(hub, new)
    assert isinstance(pod.look(), Received)
    publish(hub, old)
    assert refused(pod.look()).code == "old-file"
    publish(hub, again)
    assert refused(pod.look()).code == "sequence-reused"
    publish(hub, new)
    assert pod.look() == Quiet()


def test_another_profiles_publication_is_refused(hub: Hub) -> None:
    hub.commit("me/pods", {"q/publication.json": sign(publication(), PRIVATE)})
    pod = Pod(hub, follow=dataclasses.replace(FOLLOW, path="q/publication.json"))
    assert refused(pod.look()).code == "wrong-profile"


def test_keys_are_replaced_without_a_gap(hub: Hub) -> None:
    pod = Pod(hub, keys=f"{PUBLIC}, {OTHER_PUBLIC}")
    publish(hub, sign(publication(1), PRIVATE))
    assert isinstance(pod.look(), Received)
    publish(hub, sign(publication(2), OTHER))
    assert isinstance(pod.look(), Received)


@pytest.mark.parametrize(("keys", "code"), [("", "no-public-key"), ("{{ RUNPOD_SECRET_key }}", "bad-public-key")])
def test_a_pod_without_usable_keys_follows_nothing(hub: Hub, keys: str, code: str) -> None:
    publish(hub, sign(publication(), PRIVATE))
    assert refused(Pod(hub, keys=keys).look()).code == code


def test_unsigned_only_where_the_profile_says_so(hub: Hub) -> None:
    publish(hub, unsigned(publication()))
    assert refused(Pod(hub, keys="").look()).code == "unsigned"
    assert isinstance(Pod(hub, keys="", follow=dataclasses.replace(FOLLOW, allow_unsigned=True)).look(), Received)


def test_a_manifest_that_cannot_be_used(hub: Hub) -> None:
    pod = Pod(hub)
    for sequence, manifest in enumerate((b"{}", b"no json", MANIFEST.replace(b'"engine"', b'"motor"', 1)), 1):
        publish(hub, sign(publication(sequence, manifest), PRIVATE), manifest)
        assert refused(pod.look()).code == "bad-manifest"
        assert pod.look() == Quiet()
    newer = json.dumps({**example_manifest().to_json(), "schema_version": 99, "surprise": 1}).encode()
    publish(hub, sign(publication(9, newer), PRIVATE), newer)
    found = pod.look()
    assert isinstance(found, Received) and found.manifest is None and found.document == newer


def test_files_that_are_not_what_was_signed(hub: Hub) -> None:
    pod = Pod(hub)
    publish(hub, sign(publication(), PRIVATE), MANIFEST + b" ")
    found = pod.look()
    assert isinstance(found, Trouble) and found.code == "hash" and found.is_news
    again = pod.look()
    assert isinstance(again, Trouble) and not again.is_news
    publish(hub, sign(publication(2), PRIVATE))
    assert isinstance(pod.look(), Received)


@pytest.mark.parametrize(("fault", "code"), [
    ({"kind": "down"}, "network"), ({"kind": "html"}, "not-a-hub"), ({"kind": "status", "status": 500}, "busy"),
    ({"kind": "status", "status": 429, "retry_after": "60"}, "busy"), ({"kind": "status", "status": 403}, "denied"),
    ({"kind": "half", "on": "resolve-cache/.*publication"}, "truncated"), ({"kind": "half", "on": "resolve-cache/.*manifest"}, "truncated"),
    ({"kind": "status", "status": 404, "on": "manifest"}, "status"),
])  # fmt: skip
def test_a_hub_in_trouble_changes_nothing_and_is_told_once(hub: Hub, fault: dict[str, Any], code: str) -> None:
    pod = Pod(hub)
    publish(hub, sign(publication(), PRIVATE))
    hub.fail(**fault)
    first, second = pod.look(), pod.look()
    assert isinstance(first, Trouble) and isinstance(second, Trouble)
    assert (first.code, first.is_news, second.is_news) == (code, True, False)
    hub.clear()
    assert isinstance(pod.look(), Received)


def test_a_publish_between_two_questions_is_not_mixed_in(hub: Hub) -> None:
    """The publication is read, then somebody publishes, then the manifest is read: it is the one that belongs to the publication."""
    publish(hub, sign(publication(1), PRIVATE))
    other = written(with_launch(example_manifest(), env={"A": "3"}))
    pod, fetch = Pod(hub), hub.fail("slow", "resolve/.*manifest", seconds=0.0)
    original = hub.fault_of

    def publish_first(method: str, path: str) -> Any:
        found = original(method, path)
        if found is fetch and fetch in hub.faults:
            hub.faults.remove(fetch)
            hub.commit("me/pods", {"p/publication.json": sign(publication(2, other), PRIVATE), "p/manifest.json": other})
        return found

    hub.fault_of = publish_first  # type: ignore[method-assign]
    first, second = pod.look(), pod.look()
    assert isinstance(first, Received) and first.publication.sequence == 1 and first.document == MANIFEST
    assert isinstance(second, Received) and second.publication.sequence == 2 and second.document == other
