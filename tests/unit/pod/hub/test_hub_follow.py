from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.hub.client import Answer, HubError, ask
from pod.hub.follow import LONGEST_OFFLINE_PAUSE_S, LONGEST_PAUSE_S, Follower, Published, Unchanged, Wait, base_url, fetch_files
from pod.publication import Publication, payload_path

from tests.hub_server import Hub, hub_server

POLL = 30.0


def follower(**more: Any) -> Follower:
    return Follower(POLL, random.Random(1), **more)


def answer(status: int = 200, body: bytes = b"one", etag: str | None = '"1"', wait: float | None = None) -> Answer:
    return Answer(status, etag, body, wait, "c" * 40)


def waited(outcome: object) -> Wait:
    assert isinstance(outcome, Wait)
    return outcome


def test_the_first_question_is_asked_at_once_and_the_next_within_the_period() -> None:
    f = follower()
    assert f.due(-5.0) and f.etag is None
    assert f.answered(100.0, answer()) == Published(b"one", "c" * 40)
    assert not f.due(100.0 + POLL * 0.64) and f.due(100.0 + POLL * 0.8)
    f.ask_now()
    assert f.due(100.0)


def test_what_was_not_settled_is_handed_out_again() -> None:
    f = follower()
    assert isinstance(f.answered(0.0, answer()), Published)
    assert f.etag is None
    assert isinstance(f.answered(30.0, answer()), Published)
    f.settled()
    assert f.etag == '"1"'
    assert f.answered(60.0, answer(304, b"")) == Unchanged()
    assert f.answered(90.0, answer(200, b"one", '"renamed"')) == Unchanged()
    assert f.etag == '"renamed"'
    assert f.answered(120.0, answer(200, b"two", '"2"')) == Published(b"two", "c" * 40)


def test_a_busy_hub_is_left_alone_ever_longer_and_normal_is_back_at_once() -> None:
    f, now, pauses = follower(), 0.0, []
    for _ in range(8):
        outcome = waited(f.answered(now, answer(503, b"", None)))
        assert outcome.code == "busy"
        pauses.append(outcome.seconds)
        now = f.next_at
    assert all(later > 1.5 * earlier for earlier, later in pairwise(pauses[:5]))
    assert pauses[0] <= POLL and LONGEST_PAUSE_S * 0.85 <= pauses[-1] <= LONGEST_PAUSE_S
    f.answered(now, answer())
    assert f.next_at - now <= POLL


def test_the_hubs_own_wish_counts() -> None:
    assert waited(follower().answered(0.0, answer(429, b"", None, 1800.0))).seconds == 1800.0
    assert waited(follower().answered(0.0, answer(429, b"", None, 1.0))).seconds >= POLL * 0.85


def test_without_network_the_pause_stays_short() -> None:
    f = follower()
    for _ in range(10):
        outcome = waited(f.answered(0.0, HubError("network", "no way")))
    assert outcome.seconds <= LONGEST_OFFLINE_PAUSE_S


def test_nothing_published_yet_is_asked_for_at_the_normal_pace() -> None:
    f = follower()
    for _ in range(5):
        outcome = waited(f.answered(0.0, answer(404, b"", None)))
        assert outcome.code == "not-found" and outcome.seconds <= POLL


def test_the_same_trouble_is_news_once() -> None:
    f = follower()
    told = [waited(f.answered(0.0, o)).is_news for o in (answer(500), answer(502), answer(401), answer(403), HubError("timeout", ""), answer(418))]
    assert told == [True, False, True, False, True, True]
    f.answered(0.0, answer())
    assert waited(f.answered(0.0, answer(418))).is_news


@given(st.lists(st.sampled_from([200, 204, 304, 400, 401, 403, 404, 410, 429, 500, 503, 999]) | st.just(0), max_size=40), st.floats(1, 3600))
def test_it_always_asks_again(history: list[int], poll_s: float) -> None:
    f, now = Follower(poll_s), 0.0
    for status in history:
        f.answered(now, HubError("network", "x") if status == 0 else answer(status, b"%d" % status, None, 60.0))
        assert 0 < f.next_at - now <= max(LONGEST_PAUSE_S, poll_s, 60.0)
        now = f.next_at


MANIFEST, PAYLOAD = b'{"manifest": 1}', b"payload" * 50
SHA = hashlib.sha256(PAYLOAD).hexdigest()
PUBLICATION = Publication(1, "p", 1, 0.0, "now", {"p/manifest.json": hashlib.sha256(MANIFEST).hexdigest(), payload_path(SHA): SHA}, SHA, "")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create("me/pods")
        server.commit("me/pods", {"p/manifest.json": MANIFEST, payload_path(SHA): PAYLOAD})
        yield server


def test_files_are_fetched_at_the_publications_commit(hub: Hub) -> None:
    commit = hub.store.repo("me/pods").head.oid
    hub.commit("me/pods", {"p/manifest.json": b"a later publish"})
    names = list(PUBLICATION.files)
    assert fetch_files(base_url(hub.env(), "me/pods", commit), PUBLICATION, names, None) == {"p/manifest.json": MANIFEST, payload_path(SHA): PAYLOAD}
    with pytest.raises(HubError) as mixed:
        fetch_files(base_url(hub.env(), "me/pods"), PUBLICATION, names, None)
    assert mixed.value.kind == "hash"


@pytest.mark.parametrize(("fault", "kind"), [
    ({"kind": "half", "on": "resolve-cache|cdn"}, "truncated"), ({"kind": "html", "on": "resolve-cache"}, "not-a-hub"),
    ({"kind": "status", "status": 500}, "status"), ({"kind": "down"}, "network"), ({"kind": "old", "on": "manifest"}, "status"),
    ({"kind": "slow", "seconds": 2.0}, "timeout"),
])  # fmt: skip
def test_a_file_that_does_not_come_whole_gives_nothing(hub: Hub, fault: dict[str, Any], kind: str) -> None:
    hub.fail(**fault)
    with pytest.raises(HubError) as caught:
        fetch_files(base_url(hub.env(), "me/pods"), PUBLICATION, PUBLICATION.files, None, 0.5 if kind == "timeout" else 10.0)
    assert caught.value.kind == kind
    hub.clear()
    assert len(fetch_files(base_url(hub.env(), "me/pods"), PUBLICATION, PUBLICATION.files, None)) == 2


def test_a_changed_file_is_refused(hub: Hub) -> None:
    hub.commit("me/pods", {"p/manifest.json": MANIFEST.replace(b"1", b"2")})
    with pytest.raises(HubError, match=r"p/manifest\.json has sha256"):
        fetch_files(base_url(hub.env(), "me/pods"), PUBLICATION, ["p/manifest.json"], None)


def test_following_through_every_trouble(hub: Hub) -> None:
    """One history: published, nothing new, a Hub that falls over in each way, and a publish that arrives as soon as it is well."""
    f, now, url = follower(), 0.0, f"{base_url(hub.env(), 'me/pods')}/p/publication.json"

    def poll() -> object:
        nonlocal now
        now = max(now, f.next_at)
        try:
            outcome: Answer | HubError = ask(url, f.etag, None, 1.0)
        except HubError as error:
            outcome = error
        return f.answered(now, outcome)

    assert waited(poll()).code == "not-found"
    hub.commit("me/pods", {"p/publication.json": b"first"})
    assert poll() == Published(b"first", hub.store.repo("me/pods").head.oid)
    f.settled()
    assert poll() == Unchanged()
    for fault, code in (({"kind": "down"}, "network"), ({"kind": "status", "status": 429, "retry_after": "9"}, "busy"), ({"kind": "html"}, "not-a-hub")):
        hub.fail(**fault)
        assert waited(poll()).code == code
        hub.clear()
    hub.commit("me/pods", {"p/publication.json": b"second"})
    hub.fail("half", "resolve-cache")
    assert waited(poll()).code == "truncated"
    hub.clear()
    hub.fail("old", times=1)
    assert poll() == Unchanged()
    assert poll() == Published(b"second", hub.store.repo("me/pods").head.oid)


def test_addresses() -> None:
    assert base_url({}, "me/pods") == "https://huggingface.co/me/pods/resolve/main"
    assert base_url({"HF_ENDPOINT": "http://mirror:1/"}, "me/pods", "refs/x") == "http://mirror:1/me/pods/resolve/refs%2Fx"
