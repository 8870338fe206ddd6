"""Disks that are full, and compile caches that are damaged. Each disk is a small file system of its own, and really full."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pod.contract import CompileCache, Fetch, Manifest

from tests.faults.campaign import Case, Group, Stage
from tests.faults.leftovers import temporary_files
from tests.faults.worlds import filled, followed_on, following, hub, small_disk
from tests.hub_server import Hub
from tests.unit.pod.living import free_port, toy_manifest
from tests.unit.pod.manifests import with_launch

# More than the runtime leaves free beside a download (2 GiB), so that it begins; nothing of it is used.
ROOMY_MIB = 3000
# Archives are sealed with the endpoint's key, if nobody could guess it.
LONG_KEY = "k3y-that-seals-for-tests"
BIG = Fetch("model", "o/big", None, None)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Path]:
    yield folder


@contextlib.contextmanager
def graphs_hub() -> Iterator[Hub]:
    """A Hub of one case's own, with a model of 24 MiB and a place for compile caches."""
    with hub() as server:
        server.create("o/big")
        server.commit("o/big", {"config.json": b"{}", "tokenizer.json": b"{}", "model.bin": random.Random(1).randbytes(24 << 20)})
        server.create("me/graphs", kind="dataset")
        yield server


def no_room_at_all(stage: Stage[Path]) -> None:
    """A publication wants weights that this disk does not take: refused before a byte is fetched, the service goes on."""
    with graphs_hub() as server, small_disk(stage.folder / "hf", 64), followed_on(server, stage.folder) as world:
        before = world.serves()
        with stage.clients(world.pod):
            stage.strike(lambda: world.publish(with_launch(world.manifest, fetch=(BIG,))))
            status = world.until(lambda s: s["quarantined"], "quarantined")
            stage.recovered("it is refused, and why is said")
        stage.expect("must stay free" in status["quarantined"][0]["reason"], status["quarantined"][0]["reason"])
        stage.expect(world.serves()["engine_pid"] == before["engine_pid"], "the engine was not touched")
        stage.expect(not list((stage.folder / "hf").rglob("*.bin")), "nothing was fetched")


def full_in_the_middle(stage: Stage[Path]) -> None:
    """The disk is full when half of the weights of a first start are there; a publication without them serves, and with room they come."""
    with graphs_hub() as server, small_disk(stage.folder / "hf", ROOMY_MIB) as resize:
        server.fail("slow", "GET /cdn/", seconds=6.0)
        given = with_launch(following(), fetch=(BIG,))
        with followed_on(server, stage.folder, given, serves=False) as world:
            world.until(lambda s: s["phase"] == "download", "there was room, and the download has begun")
            stage.strike(lambda: resize(8))
            status = world.until(lambda s: s["state"] == "fatal", "fatal")
            server.clear()
            stage.expect(status["fatal"]["code"] == "no-room" and "disk is full" in status["fatal"]["cause"], f"it says so: {status['fatal']}")
            code, _ = world.pod.complete()
            stage.result.clients = f"{code} with the reason"
            resize(ROOMY_MIB)
            again = with_launch(following(base=given), fetch=(BIG,), env={"AGAIN": "1"})
            stage.strike(lambda: world.publish(again))
            world.takes_over(again)
            stage.recovered("there is room, and a publication serves")
            stage.expect(not temporary_files(stage.folder), f"no half file is left: {temporary_files(stage.folder)}")


def full_state(stage: Stage[Path]) -> None:
    """The runtime's own disk is full: publications, crashes, deaths of the supervisor are dealt with all the same, and nothing is forgotten."""
    with graphs_hub() as server, small_disk(stage.folder / "state", 16), followed_on(server, stage.folder, following("--slow-start", "0.5")) as world:
        before = world.serves()
        with stage.clients(world.pod, "told", "ended"):
            filler = filled(stage.folder / "state")
            new = world.other()
            stage.strike(lambda: world.publish(new))
            world.takes_over(new)
            stage.note("a publication is taken over on the full disk, by the reserve, whose room is then gone, too")
            more = filled(stage.folder / "state", "more")
            os.kill(before["engine_pid"], signal.SIGKILL)
            world.until(lambda s: s["state"] == "serving" and s["engine_pid"] not in (None, before["engine_pid"]), "a new engine")
            engine = world.serves()["engine_pid"]
            os.kill(world.pod.supervisor(), signal.SIGKILL)
            status = world.serves()
            stage.expect(status["engine_pid"] == engine, "the next supervisor adopts the engine")
            stage.expect(status["engine"]["manifest"] == new.sha256(), "what was published is still in force")
            stage.expect(not status["journal"]["on_disk"] and status["journal"]["problem"], f"it says that the journal is not on disk: {status['journal']}")
            more.unlink()
            stage.strike(filler.unlink)
            world.until(lambda s: s["journal"]["on_disk"], "the journal is on disk again")
            stage.recovered("the journal is on disk again, after there is room")
        text = (stage.folder / "state" / "journal" / "journal.jsonl").read_text()
        stage.expect("goes on as process" in text, "the lines of the full disk are in it, too")


def cached(hub_root: Path, *flags: str) -> Manifest:
    """A toy that compiles, with a cache on the Hub."""
    manifest = toy_manifest("--compile", *flags, port=free_port(), endpoint=free_port())
    return following(base=manifest, compile_caches={"p": CompileCache("me/graphs", "k", {"model": "m", "gpu": hub_root.name})})


def sealing(stage: Stage[Path]) -> dict[str, str]:
    """Variables of pods of one image: their checkpoints lie in the same place, and their archives are sealed."""
    return {"API_KEY": LONG_KEY, "HF_HOME": str(stage.folder / "hf")}


def archive_of(stage: Stage[Path], server: Hub, *flags: str) -> tuple[Manifest, str]:
    """A pod publishes its compile cache; its manifest and the archive's name."""
    manifest = cached(stage.folder, *flags)
    (stage.folder / "first").mkdir()
    with followed_on(server, stage.folder / "first", manifest, sealing(stage)) as world:
        world.until(lambda s: any(line.startswith("published") for line in world.lines("compile-cache")), "the cache is published")
        stage.expect(world.pod.end() == 0, "the first pod ends")
    files = server.store.repo("me/graphs", "dataset").head.files
    return manifest, max((name for name in files if name.endswith(".gz")), key=lambda name: files[name].content)


def damaged_cache(stage: Stage[Path], spoil: Callable[[bytes], bytes]) -> None:
    """A second pod finds the first one's archive damaged: it is refused, and the start goes on without it."""
    with graphs_hub() as server:
        manifest, name = archive_of(stage, server)
        server.commit("me/graphs", {name: spoil(server.read("me/graphs", name, kind="dataset"))}, kind="dataset")
        second(stage, server, manifest, "refused")
        log = stage.folder / "second" / "state" / "logs" / "engine.log"
        stage.expect("compiled graphs made" in log.read_text(), "the engine compiled by itself")


def no_room_for_cache(stage: Stage[Path]) -> None:
    """The archive does not fit: the start goes on without it."""
    with graphs_hub() as server, small_disk(stage.folder / "second" / "compiled", 2):
        manifest, _ = archive_of(stage, server, "--compile-kib", "3000")
        second(stage, server, manifest, "failed")


def second(stage: Stage[Path], server: Hub, manifest: Manifest, outcome: str) -> None:
    """Another pod starts with what the first one has published, and serves without it."""
    folder = stage.folder / "second"
    folder.mkdir(exist_ok=True)
    stage.strike(lambda: None)
    with followed_on(server, folder, manifest, sealing(stage)) as world:
        stage.recovered("it serves, from the pod's start")
        with stage.clients(world.pod, key=LONG_KEY):
            time.sleep(0.3)
        said = world.lines("compile-cache")
        stage.expect(said and said[0].startswith(outcome), f"{outcome} is said: {said}")
        stage.note(said[0])
        stage.expect(not temporary_files(folder), f"no half archive is left: {temporary_files(folder)}")
        stage.expect(world.pod.end() == 0, "it ends with 0")


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def groups() -> list[Group[Any]]:
    """The cases, on one Hub."""
    return [Group("Disks and caches", "toy", _opened, [
        Case("no room for the weights of a publication", no_room_at_all),
        Case("disk full in the middle of a download", full_in_the_middle),
        Case("disk of journal and state full", full_state),
        Case("no room for the compile cache", no_room_for_cache),
        Case("compile cache cut in half", lambda stage: damaged_cache(stage, _cut)),
        Case("compile cache with a flipped bit", lambda stage: damaged_cache(stage, _flipped)),
        Case("compile cache that is no archive", lambda stage: damaged_cache(stage, lambda data: b"<html>not here</html>")),
    ])]  # fmt: skip
