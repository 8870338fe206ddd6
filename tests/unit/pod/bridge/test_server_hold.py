"""What the supervisor says of the engine: who waits, who is sent away, who makes it swap."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pod.bridge import gate
from pod.bridge.engine_state import EngineState, state_of
from pod.bridge.gate import verdict
from pod.bridge.settings import Model

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import REQUEST, STREAMED, Bridge, Engine, Peer, bridge_to, eventually, run

pytestmark = pytest.mark.living

CHAT = "/v1/chat/completions"


class Supervisor(Engine):
    """Takes wishes to swap, and writes the file; `reply` is the status and body of its answers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(swap=self._swap)
        self.file = folder / "engine.json"
        self.reply: tuple[int, Any] = (202, {"ok": True})

    def _swap(self, peer: Peer) -> None:
        peer.whole(*self.reply)

    def say(self, state: str, model: str = "a", **more: Any) -> None:
        facts = {"version": 1, "state": state, "model": model, "served_names": [f"org/{model}"], "port": self.engine_port, "since": 1.0,
                 "detail": "", "hold": False, "retry_after_s": 30, **more}  # fmt: skip
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(facts))
        beside.replace(self.file)

    @property
    def wishes(self) -> list[Any]:
        return [asked.json["model"] for asked in self.of("/swap")]

    engine_port = 0


def says_its_name(peer: Peer) -> None:
    if peer.asked.json.get("stream"):
        peer.text(peer.asked.json["model"])
    else:
        message = {"role": "assistant", "content": peer.asked.json["model"]}
        peer.whole(200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}})


@contextlib.asynccontextmanager
async def pod(folder: Path, engine: Engine | None = None, **options: Any) -> AsyncIterator[tuple[Bridge, Supervisor, Engine]]:
    """A bridge for the engines a and b, which take turns on one port, and their supervisor, which says that a serves."""
    engine = engine or Engine(v1__chat__completions=says_its_name)
    supervisor = Supervisor(folder)
    supervisor.engine_port = await engine.start()
    environ = {"PODWRIGHT_ENGINE_STATE": str(supervisor.file), "PODWRIGHT_STATUS_PORT": str(await supervisor.start())}
    url = f"http://127.0.0.1:{supervisor.engine_port}"
    models = tuple(Model((f"org/{name}",), url, context_window=4096, engine=name) for name in ("a", "b"))
    supervisor.say("serving")
    try:
        async with bridge_to(0, environ=environ, models=models, **options) as bridge:
            yield bridge, supervisor, engine
    finally:
        engine.close()
        supervisor.close()


@pytest.mark.parametrize("mode", ["translate", "native", "keepalive"])
def test_a_stream_waits_with_pings_until_the_engine_is_back(tmp_path: Path, mode: str) -> None:
    def native(peer: Peer) -> None:
        peer.head()
        start = {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 0}}}
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
        for data in (start, end, {"type": "message_stop"}):
            peer.raw(f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode())
        peer.writer.write(b"0\r\n\r\n")

    async def work() -> None:
        engine = Engine(v1__chat__completions=says_its_name, v1__messages=native)
        async with pod(tmp_path, engine, mode=mode, ping_s=0.1, silence_s=0.3) as (bridge, supervisor, _):
            supervisor.say("reloading", hold=True, detail="loading weights, 12 of 18 GiB")
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await client.until(b'event: ping\ndata: {"type":"ping"}\n\n')
            assert got.status == 200 and bridge.app.gate.held == 1
            await asyncio.sleep(0.6)  # twice what a silent engine may take
            assert [asked for asked in engine.asked if asked.method == "POST"] == []
            supervisor.say("serving")
            while piece := await client.piece():
                got.body += piece
            assert mode == "keepalive" or judged(got.body).faults == []  # there the bytes are the engine's
            assert got.events.count("ping") >= 5 and got.events[-1] == "message_stop"
            assert bridge.app.gate.held == 0 and 500 < bridge.trace[0]["held_ms"] < 5000

    run(work())


@pytest.mark.parametrize("path", ["/v1/messages", CHAT])
def test_a_whole_answer_waits_too(tmp_path: Path, path: str) -> None:
    async def work() -> None:
        async with pod(tmp_path, silence_s=0.3) as (bridge, supervisor, _):
            supervisor.say("reloading", hold=True)
            client = await bridge.client()
            client.send("POST", path, REQUEST)
            await asyncio.sleep(0.5)
            supervisor.say("serving", served_names=["renamed"])
            got = await client.get()
            assert got.status == 200 and b"renamed" in got.body  # the name that the engine has now, not the one it had

    run(work())


def test_a_comment_stream_is_held_for_openai_clients(tmp_path: Path) -> None:
    async def work() -> None:
        async with pod(tmp_path, ping_s=0.1) as (bridge, supervisor, _):
            supervisor.say("swapping", hold=True)
            client = await bridge.client()
            client.send("POST", CHAT, STREAMED)
            got = await client.until(b": keep-alive\n\n")
            supervisor.say("serving")
            while piece := await client.piece():
                got.body += piece
            assert got.body.endswith(b"data: [DONE]\n\n")

    run(work())


@pytest.mark.parametrize("state", ["booting", "fatal", "draining"])
@pytest.mark.parametrize("body", [REQUEST, STREAMED])
def test_without_an_engine_to_wait_for_the_client_is_sent_away_at_once(tmp_path: Path, state: str, body: dict[str, Any]) -> None:
    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, engine):
            supervisor.say(state, detail="loading weights, 12 of 18 GiB", retry_after_s=17)
            for path in ("/v1/messages", CHAT):
                got = await bridge.ask("POST", path, body)
                assert got.status == 529 and got.headers["retry-after"] == "17" and got.headers["x-should-retry"] == "true"
            assert got.json["error"]["type"] == "overloaded_error"
            assert "loading weights, 12 of 18 GiB" in got.json["error"]["message"] and state in got.json["error"]["message"]
            assert engine.of(CHAT) == []
            ready = await bridge.ask("GET", "/ready")
            assert ready.status == 503 and "12 of 18" in ready.json["reason"]
            assert (await bridge.ask("GET", "/health")).json == {"status": "ok", "engine": state}

    run(work())


def test_a_missing_file_means_alone_and_a_damaged_one_the_last_word(tmp_path: Path) -> None:
    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, _):
            supervisor.say("fatal")
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 529
            supervisor.file.write_text('{"version": 1, "sta')
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 529
            supervisor.file.write_text('{"version": 1}')
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 529
            assert len(bridge.logged) == 2 and "cannot be read" in bridge.logged[0] and "names no state" in bridge.logged[1]
            bridge.logged.clear()
            supervisor.file.unlink()
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 200
            assert (await bridge.ask("GET", "/health")).json == {"status": "ok"}

    run(work())


def test_nobody_waits_longer_than_the_limit_and_no_more_than_fit(tmp_path: Path) -> None:
    async def work() -> None:
        async with pod(tmp_path, hold_s=0.5, limit=2) as (bridge, supervisor, engine):
            supervisor.say("reloading", hold=True, detail="compiling")
            asked = [asyncio.create_task(bridge.ask("POST", "/v1/messages", REQUEST)) for _ in range(2)]
            await eventually(lambda: bridge.app.gate.held == 2)
            more = await bridge.ask("POST", "/v1/messages", REQUEST)
            assert more.status == 529 and "Too many" in more.json["error"]["message"]
            for got in await asyncio.gather(*asked):
                assert got.status == 529 and "reloading (compiling), for 0.5 s" in got.json["error"]["message"]
            assert bridge.app.gate.held == 0 and engine.of(CHAT) == []

    run(work())


@pytest.mark.parametrize("body", [REQUEST, STREAMED])
def test_a_held_client_that_leaves_is_dropped(tmp_path: Path, body: dict[str, Any]) -> None:
    async def work() -> None:
        async with pod(tmp_path, ping_s=0.1) as (bridge, supervisor, engine):
            supervisor.say("reloading", hold=True)
            client = await bridge.client()
            client.send("POST", "/v1/messages", body)
            await eventually(lambda: bridge.app.gate.held == 1)
            client.close()
            await eventually(lambda: bridge.app.gate.held == 0, 1.0)
            supervisor.say("serving")
            await asyncio.sleep(0.4)
            assert engine.of(CHAT) == [] and bridge.trace[0]["status"] == 499

    run(work())


def test_a_name_of_another_engine_makes_it_swap(tmp_path: Path) -> None:
    async def work() -> None:
        async with pod(tmp_path, ping_s=0.1) as (bridge, supervisor, _):
            client = await bridge.client()
            client.send("POST", "/v1/messages", {**STREAMED, "model": "claude-org/b"})
            got = await client.until(b"message_start")
            assert supervisor.wishes == ["b"]
            supervisor.say("swapping", "b", hold=True)
            mine = asyncio.create_task(bridge.ask("POST", "/v1/messages", {**REQUEST, "model": "anything"}))  # for the one that comes
            await asyncio.sleep(0.4)
            supervisor.say("serving", "b")
            while piece := await client.piece():
                got.body += piece
            assert judged(got.body).faults == [] and b'"text":"org/b"' in got.body
            assert (await mine).json["content"][0]["text"] == "org/b"
            # A name that nobody knows gets the engine that is loaded.
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).json["content"][0]["text"] == "org/b"
            listed = (await bridge.ask("GET", "/v1/models")).json["data"]
            assert [model["id"] for model in listed] == ["org/b", "org/a"]
            assert supervisor.wishes == ["b"]

    run(work())


def test_a_swap_that_fails_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, engine):
            asked = asyncio.create_task(bridge.ask("POST", "/v1/messages", {**REQUEST, "model": "org/b"}))
            await eventually(lambda: supervisor.wishes == ["b"])
            supervisor.say("swapping", "b", hold=True)
            await asyncio.sleep(0.4)
            supervisor.say("serving", "a", detail="b needs 30 GiB more than this pod has")
            got = await asked
            assert got.status == 529 and "30 GiB more" in got.json["error"]["message"] and engine.of(CHAT) == []

    run(work())


def test_a_swap_that_is_refused_and_one_that_has_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SWAP_AGAIN_S", 0.2)

    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, _):
            supervisor.reply = (503, {"error": "this pod swaps nothing"})
            got = await bridge.ask("POST", "/v1/messages", {**REQUEST, "model": "org/b"})
            assert got.status == 529 and got.json["error"]["message"].endswith("this pod swaps nothing")
            supervisor.reply = (409, {"error": "another swap is under way"})
            asked = asyncio.create_task(bridge.ask("POST", "/v1/messages", {**REQUEST, "model": "org/b"}))
            await eventually(lambda: len(supervisor.wishes) >= 4)  # told again until it is done
            supervisor.say("serving", "b")
            assert (await asked).json["content"][0]["text"] == "org/b"

    run(work())


def test_a_supervisor_that_is_away_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "SWAP_AGAIN_S", 0.2)

    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, _):
            supervisor.close()
            asked = asyncio.create_task(bridge.ask("POST", "/v1/messages", {**REQUEST, "model": "org/b"}))
            await asyncio.sleep(0.5)
            assert not asked.done()
            supervisor.say("serving", "b")
            assert (await asked).status == 200

    run(work())


def test_an_engine_that_died_before_the_supervisor_noticed(tmp_path: Path) -> None:
    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, engine):
            port = supervisor.engine_port
            engine.close()
            asked = asyncio.create_task(bridge.ask("POST", "/v1/messages", REQUEST))
            await asyncio.sleep(0.3)
            assert not asked.done()
            supervisor.say("reloading", hold=True, detail="the engine died")
            await asyncio.sleep(0.3)
            again = Engine(v1__chat__completions=says_its_name)
            supervisor.engine_port = await again.start()
            assert supervisor.engine_port != port
            supervisor.say("serving")
            assert (await asked).json["content"][0]["text"] == "org/a"
            assert "the engine took no connection" in bridge.trace[0]["notes"]
            again.close()

    run(work())


def test_an_engine_that_nobody_misses_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "NOTICE_S", 0.3)

    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, engine):
            engine.close()
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 503
            supervisor.say("degraded", detail="no engine fits")
            got = await bridge.ask("POST", "/v1/messages", REQUEST)
            assert got.status == 529 and "no engine fits" in got.json["error"]["message"]

    run(work())


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_stream_whose_engine_dies_ends_with_an_error_and_is_not_sent_again(tmp_path: Path, has_begun: bool) -> None:
    async def dies(peer: Peer) -> None:
        if has_begun:
            peer.head()
            peer.chunk({"content": "a"})
        await peer.writer.drain()
        await asyncio.sleep(0.3)
        peer.writer.transport.abort()

    async def work() -> None:
        engine = Engine(v1__chat__completions=dies)
        async with pod(tmp_path, engine, ping_s=0.1) as (bridge, supervisor, _):
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            await asyncio.sleep(0.15)
            supervisor.say("reloading", hold=True)
            got = await client.get()
            assert got.events[-1] == "error" and judged(got.body).faults == []
            await asyncio.sleep(0.3)
            assert len(engine.of(CHAT)) == 1  # the request itself may be what killed the engine

    run(work())


def test_a_drain_answers_those_who_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with pod(tmp_path) as (bridge, supervisor, _):
            supervisor.say("reloading", hold=True)
            asked = [asyncio.create_task(bridge.ask("POST", "/v1/messages", body)) for body in (REQUEST, STREAMED)]
            await eventually(lambda: bridge.app.gate.held == 2)
            await bridge.app.stop(0.1)
            for got in await asyncio.gather(*asked):
                assert got.status == 503 and "restarting" in got.json["error"]["message"]

    run(work())


def test_a_thousand_who_wait_cost_little(tmp_path: Path) -> None:
    """One timer looks at the file for all of them."""

    async def work() -> None:
        async with pod(tmp_path, limit=2000) as (bridge, supervisor, _):
            supervisor.say("reloading", hold=True)
            clients = [await bridge.client() for _ in range(300)]
            for client in clients:
                client.send("POST", "/v1/messages", REQUEST)
            await eventually(lambda: bridge.app.gate.held == 300)
            before = os.times()
            await asyncio.sleep(1.0)
            after = os.times()
            assert after.user + after.system - before.user - before.system < 0.2
            supervisor.say("serving")
            assert {(await client.get()).status for client in clients} == {200}

    run(work())


def state(name: str, *, hold: bool = False) -> EngineState:
    return EngineState(name, "a", (), None, "why", hold, 9, 0.0)


@pytest.mark.parametrize(
    ("now", "is_loaded", "was_loading", "outcome"),
    [
        (state("serving"), True, False, "go"),
        (state("serving"), False, False, "swap"),
        (state("serving"), False, True, "error"),
        (state("degraded"), True, False, "go"),
        (state("booting"), True, False, "error"),
        (state("booting"), False, False, "error"),
        (state("fatal"), True, True, "error"),
        (state("reloading", hold=True), True, False, "wait"),
        (state("reloading", hold=True), False, False, "wait"),
        (state("swapping", hold=True), True, True, "wait"),
        (state("swapping", hold=True), False, True, "error"),
        (state("something new", hold=True), True, False, "wait"),
        (state("something new"), True, False, "error"),
    ],
)
def test_verdicts(now: EngineState, is_loaded: bool, was_loading: bool, outcome: str) -> None:
    found = verdict(now, is_loaded=is_loaded, was_loading=was_loading)
    given = "go" if found.go else "swap" if found.swap else "error" if found.error else "wait"
    assert given == outcome
    if found.error is not None:
        assert found.error.status == 529 and found.error.retry_after == 9


def test_a_file_of_another_version() -> None:
    assert state_of({"state": "serving", "version": 7, "new": 1}) == EngineState("serving", "", (), None, "", False, 30, 0.0)
    odd = {"state": "serving", "served_names": [1, "x", ""], "port": "80", "hold": 1, "retry_after_s": "soon", "since": None, "model": 5}
    assert state_of(odd) == EngineState("serving", "", ("x",), None, "", False, 30, 0.0)
    assert state_of([]) is None and state_of({"state": 1}) is None
