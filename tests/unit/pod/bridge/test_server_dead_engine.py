"""An engine whose server outlives its core, and answers 500 or 503 until it ends: its clients wait for the next one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pod.bridge import gate

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import REQUEST, STREAMED, Engine, Peer, eventually, run
from tests.unit.pod.bridge.test_server_hold import CHAT, pod, says_its_name

pytestmark = pytest.mark.living

WORDS = {"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "code": 500}}


class Dying:
    """Answers as vLLM does between the death of its core and its own end, until it is mended."""

    def __init__(self, status: int, words: Any = None) -> None:
        self.status, self.words, self.is_dead = status, words or WORDS, True

    def __call__(self, peer: Peer) -> None:
        if self.is_dead:
            peer.whole(self.status, self.words)
        else:
            says_its_name(peer)


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("path", ["/v1/messages", CHAT])
@pytest.mark.parametrize("body", [REQUEST, STREAMED])
def test_its_clients_are_held_and_then_served(tmp_path: Path, status: int, path: str, body: dict[str, Any]) -> None:
    async def work() -> None:
        dying = Dying(status)
        engine = Engine(v1__chat__completions=dying)
        async with pod(tmp_path, engine, ping_s=0.1, silence_s=0.5) as (bridge, supervisor, _):
            asked = asyncio.create_task(bridge.ask("POST", path, body))
            await eventually(lambda: len(engine.of(CHAT)) == 1)
            await asyncio.sleep(0.7)  # longer than an engine may be silent
            assert not asked.done() and len(engine.of(CHAT)) == 1
            supervisor.say("reloading", hold=True, detail="the engine ended")
            await asyncio.sleep(0.4)
            dying.is_dead = False
            supervisor.say("serving")
            got = await asked
            assert got.status == 200 and b"org/a" in got.body
            assert body is REQUEST or path == CHAT or judged(got.body).faults == []
            assert "the engine's core is gone" in bridge.trace[0]["notes"]

    run(work())


def test_a_request_that_meets_it_twice_may_be_its_cause(tmp_path: Path) -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=Dying(500))
        async with pod(tmp_path, engine) as (bridge, supervisor, _):
            asked = asyncio.create_task(bridge.ask("POST", "/v1/messages", REQUEST))
            await eventually(lambda: len(engine.of(CHAT)) == 1)
            for state in ("reloading", "serving"):
                supervisor.say(state, hold=True)
                await asyncio.sleep(0.4)
            got = await asked
            assert got.status == 503 and got.headers["x-should-retry"] == "true" and len(engine.of(CHAT)) == 2

    run(work())


def test_one_that_nobody_else_misses_is_told_to_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "DEAD_NOTICE_S", 0.3)

    async def work() -> None:
        engine = Engine(v1__chat__completions=Dying(500))
        async with pod(tmp_path, engine) as (bridge, _, _):
            for path in ("/v1/messages", CHAT):
                got = await bridge.ask("POST", path, REQUEST)
                assert got.status == 503 and "EngineCore" in got.body.decode() and got.headers["retry-after"] == "5"

    run(work())


def test_another_failure_of_the_engine_is_handed_on_at_once_and_untouched(tmp_path: Path) -> None:
    async def work() -> None:
        words = {"error": {"message": "no kernel for this shape", "type": "InternalServerError", "code": 500}}
        engine = Engine(v1__chat__completions=Dying(500, words))
        async with pod(tmp_path, engine) as (bridge, _, _):
            got = await bridge.ask("POST", CHAT, REQUEST)
            assert got.status == 500 and json.loads(got.body) == words and got.headers["content-type"] == "application/json"
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 500

    run(work())
