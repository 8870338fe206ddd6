"""Pods to strike: a toy engine with a Hub to follow, and small helpers around them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pod.contract import Manifest
from pod.publication import Publication, sign

from tests.faults.campaign import PATIENCE_S, Skipped, Stage
from tests.hub_server import Hub, hub_server
from tests.unit.pod.living import free_port, living, toy_manifest
from tests.unit.pod.test_main_follow import FOLLOW, PRIVATE, PUBLIC, World, with_ping

POLL_S = FOLLOW.poll_s


class Followed(World):
    """A pod and the Hub that it follows, with patience for a machine on which others work."""

    def until(self, condition: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """The first status for which something is so."""
        return self.pod.until(lambda status: "state" in status and condition(status), what, PATIENCE_S)

    def serves(self) -> dict[str, Any]:
        """The first status in which it serves and nothing is under way."""
        return self.until(lambda s: s["state"] == "serving" and s["bridge_pid"] and s["engine_pid"] and not s["change"], "serving")

    def takes_over(self, manifest: Manifest) -> dict[str, Any]:
        """The first status in which a manifest serves."""
        sha = manifest.sha256()
        return self.until(lambda s: s["state"] == "serving" and s["engine"]["manifest"] == sha and not s["change"], f"serving {sha[:12]}")

    def lines(self, kind: str) -> list[str]:
        """What the journal says of one kind."""
        return [line["message"] for line in self.pod.ask("GET", "/journal?lines=2000")[1]["lines"] if line["kind"] == kind]

    def publish_content(self, content: bytes, *, key: bytes = PRIVATE, change: Callable[[bytes], bytes] = lambda document: document) -> float:
        """Publish any bytes as the manifest, and the publication as `change` leaves it; the moment of it."""
        self.sequence += 1
        files = {f"{self.profile}/manifest.json": hashlib.sha256(content).hexdigest()}
        document = change(sign(Publication(1, self.profile, self.sequence, time.time(), "now", files, None, ""), key))
        self.hub.commit("me/pods", {f"{self.profile}/manifest.json": content, f"{self.profile}/publication.json": document})
        return time.monotonic()

    def other(self) -> Manifest:
        """The manifest in force with another setting of the bridge: the smallest change that can be seen."""
        return with_ping(self.manifest, 10.0 + (self.sequence + 1) / 100)


def following(*flags: str, base: Manifest | None = None, **supervisor: Any) -> Manifest:
    """A toy's manifest that follows the Hub twice a second."""
    manifest = base or toy_manifest(*flags, port=free_port(), endpoint=free_port())
    return dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, **({"follow": FOLLOW} | supervisor)))


def watched(manifest: Manifest, **watchdog: Any) -> Manifest:
    """With other settings of the watchdog."""
    changed = dataclasses.replace(manifest.supervisor.watchdog, **watchdog)
    return dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, watchdog=changed))


def environ_of(hub: Hub, folder: Path) -> dict[str, str]:
    """A pod's variables: the Hub, the keys that it trusts, and its own places for everything."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {**hub.env(), "KEYS": PUBLIC, "HF_HOME": str(folder / "hf"), "VLLM_CACHE_ROOT": str(folder / "compiled"), "TMPDIR": str(folder / "tmp")}


@contextlib.contextmanager
def hub() -> Iterator[Hub]:
    """A Hub with a repository to publish in, and a model."""
    with hub_server() as server:
        server.create("me/pods")
        server.create("o/model")
        server.commit("o/model", {"config.json": b"{}", "tokenizer.json": b"{}", "model.bin": b"w" * 100_000})
        yield server


@contextlib.contextmanager
def followed(folder: Path, manifest: Manifest | None = None, environ: Mapping[str, str] | None = None, *, serves: bool = True) -> Iterator[Followed]:
    """A toy pod on a Hub of its own, serving unless it cannot."""
    with hub() as server, followed_on(server, folder, manifest, environ, serves=serves) as world:
        yield world


@contextlib.contextmanager
def followed_on(server: Hub, folder: Path, manifest: Manifest | None = None, environ: Mapping[str, str] | None = None, *,
                serves: bool = True) -> Iterator[Followed]:  # fmt: skip
    """The same on a Hub that is there."""
    manifest = manifest or following()
    with living(folder, manifest, {**environ_of(server, folder), **(environ or {})}) as pod:
        world = Followed(pod, server, manifest)
        if serves:
            world.serves()
        yield world


def kept(stage: Stage[Any], world: Followed, before: dict[str, Any]) -> None:
    """The engine that served before still serves, and nothing else did meanwhile."""
    after = world.serves()
    stage.expect(after["engine_pid"] == before["engine_pid"], "the engine was not touched")
    stage.expect(after["engine"]["manifest"] == before["engine"]["manifest"], "the manifest before is in force")
    stage.expect(not after["restarts"]["engine"][len(before["restarts"]["engine"]) :], "nothing was restarted")


@contextlib.contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Callable[[int], None]]:
    """A file system of its own on a folder; gives what changes its size. Raises Skipped where this machine mounts none."""
    folder.mkdir(parents=True, exist_ok=True)
    if not _mount("-t", "tmpfs", "-o", f"size={mib}m,mode=0755", "tmpfs", str(folder)):
        raise Skipped("this machine lets nobody mount a small file system (needs root)")
    try:
        yield lambda size: _resized(folder, size)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


def _mount(*words: str) -> bool:
    try:
        return subprocess.run(["mount", *words], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _resized(folder: Path, mib: int) -> None:
    if not _mount("-o", f"remount,size={mib}m", str(folder)):
        raise RuntimeError(f"{folder} cannot be made {mib} MiB large")


def filled(folder: Path, name: str = "filler") -> Path:
    """Fill a file system to its last byte; the file that does."""
    path = folder / name
    with path.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    stream.write(b"x" * size)
    return path


def text_of(manifest: Manifest) -> bytes:
    """A manifest as it is published."""
    return json.dumps(manifest.to_json()).encode()
