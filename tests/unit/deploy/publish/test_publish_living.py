"""Publishing to a living pod: guardian, supervisor, bridge and a toy engine that follow a Hub over HTTP, seen through the public endpoint."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod.contract import Follow, Manifest

from compiler.deploy.signing import SigningKey
from tests.hub_server import Hub
from tests.unit.deploy.publish.conftest import ENDPOINT_KEY, REPO, Publisher
from tests.unit.pod.living import Pod, free_port, living, toy_manifest
from tests.unit.pod.manifests import with_launch

pytestmark = pytest.mark.living

FOLLOW = Follow(REPO, "p/publication.json", 0.5, "now", "KEYS", False)


def following(*flags: str) -> Manifest:
    manifest = toy_manifest(*flags, port=free_port(), endpoint=free_port())
    return dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, follow=FOLLOW))


def with_flags(manifest: Manifest, *flags: str) -> Manifest:
    return with_launch(manifest, argv=(*manifest.engine.launch.argv, *flags))


def with_bridge(manifest: Manifest, **values: object) -> Manifest:
    return dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, **values))


@pytest.fixture
def pod(tmp_path: Path, hub: Hub, key: SigningKey) -> Iterator[Pod]:
    folder = tmp_path / "pod"
    folder.mkdir()
    with living(folder, following(), {**hub.env(), "KEYS": key.public_text}) as running:
        running.serves()
        yield running


@pytest.fixture
def publish(publisher: Publisher, pod: Pod) -> Publisher:
    """A publisher whose pod is the living one. It has the runtime already, unless a test says otherwise."""
    publisher.manifest = pod.manifest
    return publisher


def where(pod: Pod) -> tuple[str]:
    return (f"http://127.0.0.1:{pod.manifest.bridge.port}",)


def test_a_bridge_reload_an_engine_restart_and_a_new_runtime(publish: Publisher, pod: Pod) -> None:
    first = publish(with_bridge(pod.manifest, ping_s=7.0), endpoints=where(pod), as_json=True)
    assert first.code == 0, first.err
    assert first.json["forecast"][0]["effect"] == "bridge reload" and first.json["forecast"][0]["new_runtime"]
    assert "hands over to the new runtime, the engine goes on" in first.err
    assert "the bridge ended" not in pod.log.read_text(), "a bridge that is just starting survives being told of new settings"
    assert first.json["pods"][0]["end"] == "serving"
    engine = pod.status()["engine_pid"]

    second = publish(with_flags(publish.manifest or pod.manifest, "--say", "other"), endpoints=where(pod))
    assert second.code == 0, second.err
    assert "-> engine restart, about" in second.out and "measured by this pod at its last start" in second.out and "serves it: publication 2" in second.out
    after = pod.status()
    assert after["engine_pid"] != engine and after["engine"]["sequence"] == 2 and after["runtime"]

    third = publish(endpoints=where(pod))
    assert third.code == 0 and "-> nothing" in third.out and "the same is published already" in third.out


def test_one_that_cannot_start_is_seen_to_go_back_and_rollback_heals_the_hub(publish: Publisher, pod: Pod, hub: Hub) -> None:
    assert publish(with_bridge(pod.manifest, ping_s=7.0), endpoints=where(pod)).code == 0
    good = publish.manifest
    bad = publish(with_flags(pod.manifest, "--exit-at-start", "3"), endpoints=where(pod), note="does not start")
    assert bad.code == 4 and "DPL069" in bad.err and "WENT BACK: it went back to publication 1" in bad.out
    assert pod.complete()[0] == 200
    again = publish(endpoints=where(pod), now=True)
    assert again.code == 4 and "went back from this very manifest before" in again.err
    healed = publish.rollback(endpoints=where(pod))
    assert healed.code == 0, healed.err
    assert good is not None and Manifest.from_bytes(hub.read(REPO, "p/manifest.json")) == good
    assert "serves it: publication 3" in healed.out


def test_what_needs_a_new_pod_is_refused_before_anything_is_uploaded(publish: Publisher, pod: Pod, hub: Hub) -> None:
    other = dataclasses.replace(pod.manifest, pod=dataclasses.replace(pod.manifest.pod, image="other:2"))
    ended = publish(other, endpoints=where(pod))
    assert ended.code == 4 and "DPL068" in ended.err and len(hub.store.repo(REPO).commits) == 1
    told = publish(other, endpoints=where(pod), for_new_pods=True)
    assert told.code == 4 and "REFUSED" in told.out and "create a new pod" in told.out and len(hub.store.repo(REPO).commits) == 2


def test_a_busy_endpoint_is_not_restarted_unless_told(publish: Publisher, pod: Pod, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from compiler.deploy.publish import pods

    real = pods.report_of
    monkeypatch.setattr(pods, "report_of", lambda status: dataclasses.replace(real(status), busy=3))
    ended = publish(with_flags(pod.manifest, "--say", "other"), endpoints=where(pod))
    assert ended.code == 4 and "DPL067" in ended.err and "3 running requests" in ended.err and len(hub.store.repo(REPO).commits) == 1
    assert publish(endpoints=where(pod), now=True).code == 0


def test_a_pod_that_does_not_trust_the_key_is_told_of(publish: Publisher, tmp_path: Path, hub: Hub) -> None:
    (tmp_path / "stranger").mkdir()
    with living(tmp_path / "stranger", following(), {**hub.env(), "KEYS": "ab" * 32}) as stranger:
        stranger.serves()
        ended = publish(with_bridge(stranger.manifest, ping_s=3.0), endpoints=where(stranger))
        assert ended.code == 4 and "REFUSED" in ended.out and "is not among the 1 that this pod trusts" in ended.out
        assert stranger.status()["state"] == "serving"


def test_the_wrong_endpoint_key_is_said(publish: Publisher, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODWRIGHT_API_KEY", "another-key")
    ended = publish(with_bridge(pod.manifest, ping_s=3.0), endpoints=where(pod))
    assert ended.code == 4 and "DPL070" in ended.err and "it refuses the key" in ended.out and "another-key" not in ended.out + ended.err
    monkeypatch.delenv("PODWRIGHT_API_KEY")
    assert "DPL034" in publish(endpoints=where(pod)).err


def test_clients_notice_nothing_of_a_bridge_reload(publish: Publisher, pod: Pod) -> None:
    answers: list[int] = []
    over = threading.Event()

    def client() -> None:
        while not over.is_set():
            answers.append(pod.complete()[0])

    thread = threading.Thread(target=client)
    thread.start()
    try:
        assert publish(with_bridge(pod.manifest, ping_s=7.0), endpoints=where(pod)).code == 0
    finally:
        over.set()
        thread.join()
    assert answers and set(answers) == {200}
    assert ENDPOINT_KEY not in pod.log.read_text()


def test_a_pod_that_follows_nothing_is_told_of_at_once(publish: Publisher, tmp_path: Path, hub: Hub) -> None:
    (tmp_path / "deaf").mkdir()
    deaf = following()
    deaf = dataclasses.replace(deaf, supervisor=dataclasses.replace(deaf.supervisor, follow=None))
    with living(tmp_path / "deaf", deaf, hub.env()) as pod:
        pod.serves()
        ended = publish(with_bridge(following(), port=deaf.bridge.port), endpoints=where(pod))
        assert ended.code == 4 and "DPL070" in ended.err and "it follows nothing: deploy the pod anew" in ended.out
