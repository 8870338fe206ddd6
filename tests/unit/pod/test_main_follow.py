"""A living runtime follows what is published on a Hub over HTTP: the smallest action, and the way back."""

from __future__ import annotations

import bz2
import dataclasses
import hashlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pod.contract import Follow, Manifest, Swap
from pod.publication import Publication, payload_path, sign

from tests.hub_server import Hub, hub_server
from tests.unit.pod.living import RUNTIME, TOY, Pod, free_port, living, toy_manifest
from tests.unit.pod.manifests import with_launch

pytestmark = pytest.mark.living

PRIVATE = b"\x01" * 32
PUBLIC = Ed25519PrivateKey.from_private_bytes(PRIVATE).public_key().public_bytes_raw().hex()
FOLLOW = Follow("me/pods", "p/publication.json", 0.5, "now", "KEYS", False)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create("me/pods")
        yield server


@dataclasses.dataclass
class World:
    """A pod, the Hub that it follows, and the last manifest."""

    pod: Pod
    hub: Hub
    manifest: Manifest
    sequence: int = 0
    profile: str = "p"

    def publish(self, manifest: Manifest, *, key: bytes = PRIVATE, when: Any = "now", runtime: bytes | None = None, sequence: int | None = None) -> float:
        """Publish, and the moment of it."""
        self.sequence = sequence or self.sequence + 1
        content = json.dumps(manifest.to_json()).encode()
        files = {f"{self.profile}/manifest.json": content}
        digest = hashlib.sha256(runtime).hexdigest() if runtime else None
        if runtime and digest:
            files[payload_path(digest)] = runtime
        hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
        publication = Publication(1, self.profile, self.sequence, time.time(), when, hashes, digest, "")
        self.hub.commit("me/pods", {**files, f"{self.profile}/publication.json": sign(publication, key)})
        return time.monotonic()

    def takes_over(self, manifest: Manifest) -> dict[str, Any]:
        """The first status in which a manifest serves."""
        sha = manifest.sha256()
        return self.pod.until(lambda s: s["state"] == "serving" and s["engine"]["manifest"] == sha and not s["change"], f"serving {sha[:12]}")


def following(*flags: str) -> Manifest:
    manifest = toy_manifest(*flags, port=free_port(), endpoint=free_port())
    return dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, follow=FOLLOW))


@pytest.fixture
def world(tmp_path: Path, hub: Hub) -> Iterator[World]:
    manifest = following()
    with living(tmp_path, manifest, {**hub.env(), "KEYS": PUBLIC}) as pod:
        pod.serves()
        yield World(pod, hub, manifest)


def with_flags(manifest: Manifest, *flags: str) -> Manifest:
    return with_launch(manifest, argv=(*manifest.engine.launch.argv, *flags))


def with_ping(manifest: Manifest, seconds: float) -> Manifest:
    return dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, ping_s=seconds))


def test_what_changes_nothing_touches_nothing(world: World) -> None:
    before = world.pod.status()
    same = dataclasses.replace(world.manifest, compiler="0.9.9")
    world.publish(same)
    after = world.takes_over(same)
    assert (after["engine_pid"], after["bridge_pid"]) == (before["engine_pid"], before["bridge_pid"])


def test_a_bridge_change_reaches_the_bridge_and_cuts_no_answer(tmp_path: Path, hub: Hub) -> None:
    with living(tmp_path, following("--generate-s", "2.5"), {**hub.env(), "KEYS": PUBLIC}) as pod:
        before = pod.serves()
        world = World(pod, hub, pod.manifest)
        answers: list[int] = []
        client = threading.Thread(target=lambda: answers.append(pod.complete()[0]))
        client.start()
        new = with_ping(world.manifest, 9.0)
        world.publish(new)
        after = world.takes_over(new)
        client.join()
        assert answers == [200] and after["engine_pid"] == before["engine_pid"] and after["bridge_pid"] == before["bridge_pid"]
        pod.until(lambda s: "new settings" in (tmp_path / "state" / "logs" / "bridge.log").read_text(), "new settings")


def test_an_engine_change_drains_restarts_and_holds_clients(world: World) -> None:
    before = world.pod.status()
    new = with_flags(world.manifest, "--slow-start", "1.0")
    world.publish(new)
    world.pod.until(lambda s: s["state"] == "reloading", "reloading")
    assert world.pod.complete()[0] == 200
    assert world.takes_over(new)["engine_pid"] != before["engine_pid"]


def test_one_whose_engine_cannot_start_goes_back_by_itself(world: World) -> None:
    bad = with_flags(world.manifest, "--exit-at-start", "3")
    world.publish(bad)
    status = world.pod.until(lambda s: s["quarantined"] and s["state"] == "serving", "back")
    assert status["engine"]["manifest"] == world.manifest.sha256() and status["quarantined"][0]["manifest"] == bad.sha256()
    assert world.pod.complete()[0] == 200 and not status["restarts"]["engine"]
    good = with_flags(world.manifest, "--slow-start", "0.1")
    world.publish(good)
    world.takes_over(good)


def test_one_that_answers_nonsense_goes_back(world: World) -> None:
    world.publish(with_flags(world.manifest, "--answer", "gibberish"))
    status = world.pod.until(lambda s: s["quarantined"] and s["state"] == "serving", "back")
    assert "gibberish" in status["quarantined"][0]["reason"]


def test_another_key_an_old_number_and_a_broken_file_change_nothing(world: World) -> None:
    first = with_ping(world.manifest, 7.0)
    world.publish(first, sequence=5)
    world.takes_over(first)
    world.publish(with_ping(world.manifest, 8.0), key=b"\x02" * 32, sequence=6)
    world.pod.until(lambda s: "unknown-key" in s["follow"] or "trusts" in s["notice"], "refused")
    world.publish(with_ping(world.manifest, 8.0), sequence=4)
    world.pod.until(lambda s: "number 5 is in force" in s["notice"], "refused as old")
    world.hub.commit("me/pods", {"p/publication.json": b"{"})
    world.pod.until(lambda s: "not JSON" in s["notice"], "refused as broken")
    assert world.pod.status()["engine"]["manifest"] == first.sha256() and world.pod.complete()[0] == 200


def test_a_fixed_publication_heals_a_fatal_start(tmp_path: Path, hub: Hub) -> None:
    manifest = dataclasses.replace(following("--exit-at-start", "1"))
    watchdog = dataclasses.replace(manifest.supervisor.watchdog, crash_loop_restarts=1)
    manifest = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, watchdog=watchdog))
    with living(tmp_path, manifest, {**hub.env(), "KEYS": PUBLIC}) as pod:
        pod.until(lambda s: s["state"] == "fatal", "fatal")
        world = World(pod, hub, manifest)
        fixed = with_launch(manifest, argv=manifest.engine.launch.argv[:4])
        world.publish(fixed)
        world.takes_over(fixed)


def test_a_fresh_pod_whose_publication_crashes_in_a_loop_starts_its_own_manifest(tmp_path: Path, hub: Hub) -> None:
    own = following("--slow-start", "4")
    watchdog = dataclasses.replace(own.supervisor.watchdog, crash_loop_restarts=1)
    own = dataclasses.replace(own, supervisor=dataclasses.replace(own.supervisor, watchdog=watchdog))
    with living(tmp_path, own, {**hub.env(), "KEYS": PUBLIC}) as pod:
        world = World(pod, hub, own)
        bad = with_flags(own, "--exit-at-start", "3")
        world.publish(bad)
        status = pod.until(lambda s: s["quarantined"] and s["state"] == "serving", "its own manifest")
        assert status["engine"]["manifest"] == own.sha256() and status["quarantined"][0]["manifest"] == bad.sha256()
        assert pod.complete()[0] == 200


def test_a_hub_that_is_down_disturbs_nothing(world: World) -> None:
    world.hub.fail("status", status=500)
    world.pod.until(lambda s: "500" in s["follow"], "trouble")
    assert world.pod.complete()[0] == 200
    world.hub.clear()
    new = with_ping(world.manifest, 3.0)
    world.publish(new)
    assert world.pod.ask("POST", "/reload")[0] == 202
    world.takes_over(new)


def test_a_swap_on_a_clients_request_and_back_when_it_fails(tmp_path: Path) -> None:
    manifest = toy_manifest("--served-model-name", "m", port=free_port(), endpoint=free_port())
    others = []
    for name, flags in (("q", ()), ("broken", ("--exit-at-start", "1"))):
        argv = (manifest.engine.launch.argv[0], TOY, "--port", str(manifest.engine.launch.port), "--served-model-name", name, *flags)
        launch = dataclasses.replace(manifest.engine.launch, argv=argv)
        others.append(dataclasses.replace(manifest.engine, name=name, served_names=(name,), launch=launch))
    with living(tmp_path, dataclasses.replace(manifest, swap=Swap(tuple(others), True))) as pod:
        pod.serves()
        assert pod.complete(model="q")[0] == 200
        assert pod.serves()["engine"]["name"] == "q"
        code, answer = pod.complete(model="broken")
        assert code == 529 and "could not be loaded" in json.dumps(answer)
        assert pod.serves()["engine"]["name"] == "q", "a failed swap returns to the model before"
        assert pod.ask("POST", "/swap", b'{"model": "nobody"}')[0] == 404


def payload_of(change: Callable[[str, str], str] = lambda name, text: text) -> bytes:
    """This runtime as a publication carries it, its files changed by `change(name, text)`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted((RUNTIME / "pod").rglob("*")):
            if path.suffix in (".py", ".html"):
                name = str(path.relative_to(RUNTIME))
                content = change(name, path.read_text()).encode()
                entry = tarfile.TarInfo(f"runtime/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return bz2.compress(buffer.getvalue())


def test_another_runtime_takes_over_engine_and_bridge(world: World) -> None:
    before = world.pod.status()
    new = dataclasses.replace(world.manifest, compiler="0.9.9")
    world.publish(new, runtime=payload_of())
    after = world.takes_over(new)
    assert after["engine_pid"] == before["engine_pid"]
    assert any("handing over" in line["message"] for line in world.pod.ask("GET", "/journal?lines=200")[1]["lines"])
    world.pod.until(lambda s: s["bridge_pid"] not in (None, before["bridge_pid"]), "a new bridge")
    assert world.pod.complete()[0] == 200


def test_a_runtime_that_dies_again_and_again_is_left(world: World) -> None:
    before = world.pod.status()
    broken = payload_of(lambda name, text: text.replace("await supervisor.run()", "1 // 0") if name.endswith("supervise.py") else text)
    new = with_ping(world.manifest, 4.0)
    world.publish(new, runtime=broken)
    after = world.takes_over(new)
    assert after["engine_pid"] == before["engine_pid"] and "does not stay up" in world.pod.log.read_text()
    assert world.pod.complete()[0] == 200


def test_a_runtime_that_cannot_be_imported_is_refused(world: World) -> None:
    world.publish(with_ping(world.manifest, 4.0), runtime=b"no archive")
    status = world.takes_over(with_ping(world.manifest, 4.0))
    assert "cannot be used" in json.dumps(status["last"])
