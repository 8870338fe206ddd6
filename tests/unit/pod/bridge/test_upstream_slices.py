"""An engine that hands over much at once: it is worked on in slices, so that nobody else waits for the whole of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pod.bridge import upstream
from pod.bridge.engine_answer import Answer
from pod.bridge.upstream import SLICE, Upstream, _Connection

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import STREAMED, Engine, Peer, pair, run

SIZE = 5 * SLICE
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % SIZE


class Transport:
    """Remembers whether it is read from."""

    def __init__(self) -> None:
        self.is_reading = True
        self.is_aborted = False

    def write(self, _: bytes) -> None: ...

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


class Asked:
    """A connection whose request was sent, and what came of its answer."""

    def __init__(self) -> None:
        self.pool = Upstream("http://127.0.0.1:1")
        self.connection, self.transport = _Connection(self.pool), Transport()
        self.connection.connection_made(self.transport)
        self.head = self.connection.send(b"GET / HTTP/1.1\r\n\r\n", b"")
        self.got = bytearray()
        self.ends: list[Any] = []

    async def begin(self, data: bytes) -> Answer:
        self.connection.data_received(HEAD)
        answer = await self.head
        answer.listen(self.got.extend, self.ends.append)
        self.connection.data_received(data)
        return answer


def test_slices_take_turns_with_others() -> None:
    async def work() -> None:
        asked = Asked()
        await asked.begin(b"x" * SIZE)
        seen = []
        while not asked.ends:
            seen.append((len(asked.got), asked.transport.is_reading))
            await asyncio.sleep(0)
        assert seen == [(i * SLICE, False) for i in range(1, 5)] and asked.ends == [None] and len(asked.got) == SIZE
        assert asked.transport.is_reading and not asked.transport.is_aborted and asked.pool.open_connections == 1

    run(work())


def test_a_slow_client_stops_the_slices_too() -> None:
    async def work() -> None:
        asked = Asked()
        answer = await asked.begin(b"x" * (SIZE - 1))
        answer.pause(True)
        for _ in range(9):
            await asyncio.sleep(0)
        assert len(asked.got) == SLICE and not asked.transport.is_reading
        answer.pause(False)
        answer.pause(True)
        assert len(asked.got) == 2 * SLICE
        answer.pause(False)
        for _ in range(9):
            await asyncio.sleep(0)
        assert len(asked.got) == SIZE - 1 and asked.transport.is_reading and asked.ends == []

    run(work())


def test_what_waits_is_not_lost_with_the_connection() -> None:
    async def work() -> None:
        asked = Asked()
        await asked.begin(b"x" * SIZE)
        asked.connection.connection_lost(None)
        assert len(asked.got) == SIZE and asked.ends == [None]
        asked = Asked()
        answer = await asked.begin(b"x" * SIZE)
        answer.cancel()
        for _ in range(9):
            await asyncio.sleep(0)
        assert len(asked.got) == SLICE and asked.transport.is_aborted and asked.pool.open_connections == 0

    run(work())


def test_bytes_behind_an_answer_are_not_the_next_ones() -> None:
    async def work() -> None:
        asked = Asked()
        await asked.begin(b"x" * SIZE + b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n" * 300)
        while not asked.ends:
            await asyncio.sleep(0)
        assert len(asked.got) == SIZE and asked.pool.open_connections == 0

    run(work())


def test_large_streams_arrive_whole(monkeypatch: Any) -> None:
    """Over real sockets, with slices that end anywhere."""
    monkeypatch.setattr(upstream, "SLICE", 1000)
    pieces = [f"{i} " + "€" * (i % 700) for i in range(400)]

    def flood(peer: Peer) -> None:
        usage = {"prompt_tokens": 1, "completion_tokens": 400}
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
        peer.head()
        peer.raw(b"".join(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n")
        peer.writer.write(b"0\r\n\r\n")

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=flood)) as bridge:
            client = await bridge.client()
            for _ in range(3):
                client.send("POST", "/v1/messages", STREAMED)
                judge = judged((await client.get()).body)
                assert judge.faults == [] and judge.blocks[0]["text"] == "".join(pieces)
            assert bridge.app.engines.first.open_connections == 1

    run(work())
