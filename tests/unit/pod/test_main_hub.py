"""A living runtime and a Hub over HTTP: weights, compile cache, journal."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pod.contract import CompileCache, Fetch, Journal, KvStore, Manifest, Swap

from tests.hub_server import Hub, hub_server
from tests.unit.pod.living import free_port, living, toy_manifest
from tests.unit.pod.manifests import with_launch
from tests.unit.pod.test_main_follow import FOLLOW, PUBLIC, World

pytestmark = pytest.mark.living

MODEL = {"config.json": b"{}", "tokenizer.json": b"{}", "model.bin": b"w" * 100_000}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create("me/pods")
        server.create("o/model")
        server.commit("o/model", MODEL)
        yield server


def environ(hub: Hub, folder: Path) -> dict[str, str]:
    return {**hub.env(), "KEYS": PUBLIC, "HF_HOME": str(folder / "hf"), "VLLM_CACHE_ROOT": str(folder / "compiled")}


def manifest_for(*flags: str, repo: str | None = None, **supervisor: Any) -> Manifest:
    manifest = toy_manifest(*flags, port=free_port(), endpoint=free_port())
    manifest = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, follow=FOLLOW, **supervisor))
    return with_launch(manifest, fetch=(Fetch("model", repo, None, None),)) if repo else manifest


def kinds(pod: Any, kind: str) -> list[str]:
    return [line["message"] for line in pod.ask("GET", "/journal?lines=500")[1]["lines"] if line["kind"] == kind]


def test_weights_are_brought_and_then_the_hub_is_not_asked(tmp_path: Path, hub: Hub) -> None:
    with living(tmp_path, manifest_for(repo="o/model"), environ(hub, tmp_path)) as pod:
        pod.serves()
        assert list((tmp_path / "hf" / "hub").rglob("model.bin"))
        assert any("not asked" in message for message in kinds(pod, "offline"))


def test_a_model_that_does_not_exist_is_fatal_until_a_publication_names_another(tmp_path: Path, hub: Hub) -> None:
    bad = manifest_for(repo="o/nothing")
    with living(tmp_path, bad, environ(hub, tmp_path)) as pod:
        status = pod.until(lambda s: s["state"] == "fatal", "fatal")
        assert status["fatal"]["code"] == "not-found" and "o/nothing" in status["fatal"]["cause"]
        world = World(pod, hub, bad)
        good = with_launch(bad, fetch=(Fetch("model", "o/model", None, None),))
        world.publish(good)
        world.takes_over(good)


def test_a_publication_whose_weights_do_not_exist_never_stops_the_service(tmp_path: Path, hub: Hub) -> None:
    manifest = manifest_for()
    with living(tmp_path, manifest, environ(hub, tmp_path)) as pod:
        first = pod.serves()["engine_pid"]
        world = World(pod, hub, manifest)
        world.publish(with_launch(manifest, fetch=(Fetch("model", "o/nothing", None, None),)))
        status = pod.until(lambda s: s["quarantined"], "quarantined")
        assert status["engine_pid"] == first and status["state"] == "serving"


def test_weights_of_the_others_are_preloaded_after_the_first_service(tmp_path: Path, hub: Hub) -> None:
    manifest = manifest_for()
    other = dataclasses.replace(manifest.engine, name="q", launch=dataclasses.replace(manifest.engine.launch, fetch=(Fetch("model", "o/model", None, None),)))
    with living(tmp_path, dataclasses.replace(manifest, swap=Swap((other,), True)), environ(hub, tmp_path)) as pod:
        pod.until(lambda s: any(line["kind"] == "preload" for line in s["last"]), "preloaded")
        assert kinds(pod, "preload") == ["weights of q: whole"]


def test_compiled_graphs_travel_from_one_pod_to_the_next(tmp_path: Path, hub: Hub) -> None:
    manifest = manifest_for("--compile", compile_caches={"p": CompileCache("me/graphs", "k", {"model": "m", "gpu": "none"})})
    for name, outcome in (("one", "made"), ("two", "found")):
        folder = tmp_path / name
        folder.mkdir()
        with living(folder, manifest, {**environ(hub, folder), "HF_HOME": str(tmp_path / "hf"), "API_KEY": "k3y-that-seals-for-tests"}) as pod:
            pod.serves()
            assert f"compiled graphs {outcome}" in (folder / "state" / "logs" / "engine.log").read_text()
            wanted = "published" if outcome == "made" else "known"
            pod.until(lambda s, wanted=wanted: any(message.startswith(wanted) for message in kinds(pod, "compile-cache")), wanted)  # type: ignore[misc]
            assert pod.end() == 0


def test_the_engines_of_a_swap_set_compile_apart(tmp_path: Path, hub: Hub) -> None:
    caches = {name: CompileCache("me/graphs", f"k-{name}", {"model": name, "gpu": "none"}) for name in ("p", "q")}
    manifest = manifest_for("--compile", compile_caches=caches)
    swapped = dataclasses.replace(manifest, swap=Swap((dataclasses.replace(manifest.engine, name="q", served_names=("q",)),), False))
    with living(tmp_path, swapped, {**environ(hub, tmp_path), "API_KEY": "k3y-that-seals-for-tests"}) as pod:
        for count, name in enumerate(("p", "q"), 1):
            pod.until(lambda s, count=count: sum(m.startswith("published") for m in kinds(pod, "compile-cache")) == count, f"{name} published")  # type: ignore[misc]
            assert pod.serves()["engine"]["name"] == name
            assert (tmp_path / "state" / "logs" / "engine.log").read_text().count("compiled graphs made") == count
            pod.ask("POST", "/swap", b'{"model": "q"}')
    assert len(list((tmp_path / "compiled").glob("compile-*"))) == 2


def test_without_a_key_that_can_seal_nothing_is_restored_or_published(tmp_path: Path, hub: Hub) -> None:
    manifest = manifest_for("--compile", compile_caches={"p": CompileCache("me/graphs", "k", {"model": "m", "gpu": "none"})})
    with living(tmp_path, manifest, {**environ(hub, tmp_path), "API_KEY": "short"}) as pod:
        pod.serves()
        said = kinds(pod, "compile-cache")
        assert len(said) == 1 and said[0].startswith("off: API_KEY has fewer than 16 characters"), said
        assert hub.asked("me/graphs") == []
    open_bridge = dataclasses.replace(manifest.bridge, api_key_env=None)
    (tmp_path / "open").mkdir()
    with living(tmp_path / "open", dataclasses.replace(manifest, bridge=open_bridge), environ(hub, tmp_path)) as pod:
        pod.serves()
        assert kinds(pod, "compile-cache")[0].startswith("off: the key of the endpoint is not set")


def test_the_journal_is_copied_and_holds_no_secret(tmp_path: Path, hub: Hub) -> None:
    hub.create("me/journal")
    manifest = manifest_for(journal=Journal("me/journal", 1.0, 1.0))
    with living(tmp_path, manifest, {**environ(hub, tmp_path), "RUNPOD_POD_ID": "pod1"}) as pod:
        pod.serves()
        pod.until(lambda s: "copied" in s["mirror"], "copied")
        text = hub.read("me/journal", "state/pod1.log").decode()
        assert "pod pod1" in text and "booting" in text + "booting" and "k3y-for-tests" not in text and "hf_writer" not in text


def test_the_copied_journal_asks_the_engine_and_not_the_bridge(tmp_path: Path, hub: Hub) -> None:
    """The bridge answers from the first second on; what is copied must say how the engine is."""
    hub.create("me/journal")
    manifest = manifest_for("--slow-start", "6", journal=Journal("me/journal", 0.5, 0.5))
    section = f"----- engine on port {manifest.engine.launch.port} -----\n"

    def copied(text: str) -> bool:
        files = hub.store.repo("me/journal").head.files
        return "state/pod1.log" in files and section + text in files["state/pod1.log"].content.decode()

    with living(tmp_path, manifest, {**environ(hub, tmp_path), "RUNPOD_POD_ID": "pod1"}) as pod:
        pod.until(lambda s: s["bridge_pid"] is not None and copied("does not answer"), "copied without an engine")
        assert pod.status()["state"] == "booting"
        pod.until(lambda s: copied("Running: 0 reqs"), "copied with its engine")


def test_a_fatal_end_is_copied_before_the_spend_ends(tmp_path: Path, hub: Hub) -> None:
    hub.create("me/journal")
    manifest = manifest_for("--exit-at-start", "1", journal=Journal("me/journal", 600.0, 600.0))
    watchdog = dataclasses.replace(manifest.supervisor.watchdog, crash_loop_restarts=1)
    manifest = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, watchdog=watchdog))
    with living(tmp_path, manifest, {**environ(hub, tmp_path), "RUNPOD_POD_ID": "pod1"}) as pod:
        pod.until(lambda s: any(line["kind"] == "spend" for line in s["last"]), "end of the spend")
        assert "state: fatal" in hub.read("me/journal", "state/fatal-pod1.log").decode()


def test_the_engine_waits_for_its_kv_store_which_outlives_it(tmp_path: Path, hub: Hub) -> None:
    port = free_port()
    store = KvStore((sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"), 1, 16, port, free_port())
    manifest = dataclasses.replace(manifest_for(), kv_store=store)
    with living(tmp_path, manifest, environ(hub, tmp_path)) as pod:
        status = pod.serves()
        first = {child["role"]: child["pid"] for child in status["children"]}
        assert "kv-store" in first
        world = World(pod, hub, manifest)
        new = with_launch(manifest, argv=(*manifest.engine.launch.argv, "--slow-start", "0.1"))
        world.publish(new)
        second = {child["role"]: child["pid"] for child in world.takes_over(new)["children"]}
        assert second["kv-store"] == first["kv-store"] and second["engine"] != first["engine"]
        without = dataclasses.replace(new, kv_store=None)
        world.publish(without)
        assert "kv-store" not in {child["role"] for child in world.takes_over(without)["children"]}


def test_a_kv_store_that_does_not_start_is_fatal(tmp_path: Path, hub: Hub) -> None:
    store = KvStore((sys.executable, "-c", "raise SystemExit(3)"), 1, 16, free_port(), free_port())
    with living(tmp_path, dataclasses.replace(manifest_for(), kv_store=store), environ(hub, tmp_path)) as pod:
        status = pod.until(lambda s: s["state"] == "fatal", "fatal")
        assert status["fatal"]["code"] == "kv-store" and "k3y" not in json.dumps(status)


def test_weights_that_vanish_while_an_engine_starts_are_reported(tmp_path: Path, hub: Hub) -> None:
    manifest = manifest_for("--slow-start", "600", repo="o/model")
    patient = dataclasses.replace(manifest.supervisor.watchdog, boot_stall_s=12.0)
    manifest = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, watchdog=patient))
    manifest = with_launch(manifest, fetch=(Fetch("model", "o/model", None, sum(map(len, MODEL.values()))),))
    with living(tmp_path, manifest, environ(hub, tmp_path)) as pod:
        pod.until(lambda s: s["engine_pid"], "started")
        shutil.rmtree(tmp_path / "hf" / "hub" / "models--o--model" / "snapshots")
        status = pod.until(lambda s: "weights are missing" in s["notice"], "reported")
        assert "holds 0.0 GiB" in status["notice"] and status["state"] == "booting", "reported, and never restarted"
