"""Streams over real sockets: pings, leaving clients, slow readers, engines that fail in every way, drains."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pod.bridge import live
from pod.bridge.settings import Model

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import REQUEST, STREAMED, Client, Engine, Got, Peer, bridge_to, eventually, pair, run

pytestmark = pytest.mark.living

CHAT = "/v1/chat/completions"
WHOLE = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}


async def whole_of(client: Client) -> Got:
    got = await client.get()
    assert judged(got.body).faults == []
    return got


def test_pings_before_the_first_token_and_between_tokens() -> None:
    async def slowly(peer: Peer) -> None:
        await asyncio.sleep(0.5)
        peer.head()
        await asyncio.sleep(0.3)
        peer.chunk({"content": "a"})
        await asyncio.sleep(0.3)
        peer.chunk({"content": "b"}, "stop")
        peer.done()

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=slowly), ping_s=0.1) as bridge:
            client = await bridge.client()
            start = asyncio.get_running_loop().time()
            client.send("POST", "/v1/messages", STREAMED)
            got = await client.until(b"message_start")
            assert asyncio.get_running_loop().time() - start < 0.2
            while piece := await client.piece():
                got.body += piece
            assert judged(got.body).faults == []
            names = got.events
            before, after = names[: names.index("content_block_start")], names[names.index("content_block_start") :]
            assert before.count("ping") >= 5 and after.count("ping") >= 2
            # Newer clients count no pings, so that an empty delta stands beside each.
            assert after[after.index("ping") + 1] == "content_block_delta"
            assert bridge.trace[0]["pings"] >= 7 and bridge.trace[0]["status"] == 200

    run(work())


def test_keepalive_leaves_the_bytes_alone() -> None:
    frames = [b"event: message_start\ndata: {}\n\n", b"event: odd\r\ndata: 1\r\n\r\n", b"data: x\n\n"]

    async def slowly(peer: Peer) -> None:
        peer.head("text/event-stream")
        for frame in frames:
            peer.raw(frame[:7])
            await asyncio.sleep(0.25)
            peer.raw(frame[7:])
        peer.writer.write(b"0\r\n\r\n")

    async def work() -> None:
        async with pair(Engine(v1__messages=slowly), mode="keepalive", ping_s=0.1) as bridge:
            got = await bridge.ask("POST", "/v1/messages", STREAMED)
            ping = b'event: ping\ndata: {"type":"ping"}\n\n'
            assert got.body.count(ping) >= 3 and got.body.replace(ping, b"") == b"".join(frames)
        async with pair(Engine(v1__chat__completions=slowly), ping_s=0.1) as bridge:
            got = await bridge.ask("POST", CHAT, STREAMED)
            assert got.body.count(b": keep-alive\n\n") >= 3 and got.body.replace(b": keep-alive\n\n", b"") == b"".join(frames)

    run(work())


def test_native_mode() -> None:
    def events(peer: Peer) -> None:
        peer.head()
        for data in (
            {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 0}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ):
            peer.raw(f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode())
        peer.writer.write(b"0\r\n\r\n")

    async def work() -> None:
        engine = Engine(v1__messages=events, v1__messages__count_tokens=lambda peer: peer.whole(200, {"input_tokens": 12}))
        async with pair(engine, mode="native") as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED, {"anthropic-beta": "a,b"})
            got = await whole_of(client)
            assert got.events[0] == "message_start" and got.events[-1] == "message_stop"
            assert engine.of("/v1/messages")[0].headers["anthropic-beta"] == "a,b"
            count = await bridge.ask("POST", "/v1/messages/count_tokens", {k: v for k, v in REQUEST.items() if k != "max_tokens"})
            assert count.json == {"input_tokens": 12}

    run(work())


@pytest.mark.parametrize("when", ["before the head", "before a token", "between tokens"])
@pytest.mark.parametrize("path", ["/v1/messages", CHAT])
def test_a_client_that_leaves_ends_the_generation(when: str, path: str) -> None:
    async def work() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def endless(peer: Peer) -> None:
            if when != "before the head":
                peer.head()
            if when == "between tokens":
                peer.chunk({"content": "a"})
            arrived.set()
            if await peer.left():
                left.set()

        async with pair(Engine(v1__chat__completions=endless)) as bridge:
            client = await bridge.client()
            client.send("POST", path, STREAMED)
            await arrived.wait()
            if when == "between tokens":
                await client.until(b"a")
            start = asyncio.get_running_loop().time()
            client.close()
            await asyncio.wait_for(left.wait(), 2)
            assert asyncio.get_running_loop().time() - start < 0.5
            await eventually(lambda: bridge.app.engines.first.active == 0 and len(bridge.app.sweep) == 0)
            assert bridge.trace[0]["status"] == 499

    run(work())


def test_a_client_that_leaves_a_whole_answer_ends_it_too() -> None:
    async def work() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def endless(peer: Peer) -> None:
            arrived.set()
            if await peer.left():
                left.set()

        async with pair(Engine(v1__chat__completions=endless)) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", REQUEST)
            await arrived.wait()
            client.close()
            await asyncio.wait_for(left.wait(), 2)

    run(work())


def test_many_aborted_streams_leave_nothing() -> None:
    async def work() -> None:
        async def endless(peer: Peer) -> None:
            peer.head()
            peer.chunk({"content": "a"})
            await peer.left()

        engine = Engine(v1__chat__completions=endless)
        async with pair(engine) as bridge:

            async def one() -> None:
                client = await bridge.client()
                client.send("POST", "/v1/messages", STREAMED)
                if random.random() < 0.7:
                    await client.until(b"a")
                client.close()

            for _ in range(20):
                await asyncio.gather(*(one() for _ in range(50)))
            await eventually(lambda: engine.connections <= 1 and len(bridge.app.sweep) == 0 and not bridge.app.server.connections)
            assert bridge.app.engines.first.open_connections <= 1 and not bridge.app._tasks
            assert sum(line["status"] == 499 for line in bridge.trace) > 600

    run(work())


def test_a_slow_reader_stops_the_engine_and_not_the_memory() -> None:
    async def work() -> None:
        sent = 0

        async def flood(peer: Peer) -> None:
            nonlocal sent
            peer.head()
            for _ in range(4000):
                peer.chunk({"content": "x" * 8000})
                sent += 8000
                await peer.writer.drain()
            peer.chunk({}, "stop")
            peer.done()

        async with pair(Engine(v1__chat__completions=flood), ping_s=0.2) as bridge:
            own = socket.socket()
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            own.setblocking(False)
            await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", bridge.port))
            client = Client(*await asyncio.open_connection(sock=own, limit=65536))
            client.send("POST", "/v1/messages", STREAMED)
            await eventually(lambda: sent > 0)
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.4)
            assert sent < 30_000_000
            connection = next(iter(bridge.app.server.connections))
            assert connection._transport.get_write_buffer_size() < 3_000_000
            got = await client.get()
            assert judged(got.body).faults == [] and got.body.count(b"x") >= 32_000_000

    run(work())


def test_a_client_that_never_reads_is_dropped_in_the_end() -> None:
    async def work() -> None:
        async def flood(peer: Peer) -> None:
            peer.head()
            while not peer.writer.is_closing():
                peer.chunk({"content": "x" * 8000})
                await peer.writer.drain()

        async with pair(Engine(v1__chat__completions=flood), ping_s=0.1, silence_s=1.0) as bridge:
            client = await bridge.client()
            client.writer.transport.pause_reading()
            client.send("POST", "/v1/messages", STREAMED)
            await eventually(lambda: bool(bridge.trace), 10)
            assert "the client stopped reading" in bridge.trace[0]["notes"]

    run(work())


def raw(data: bytes) -> Any:
    def answer(peer: Peer) -> None:
        peer.writer.write(data)
        peer.writer.close()

    return answer


@pytest.mark.parametrize(
    ("answer", "status", "kind"),
    [
        (lambda peer: peer.whole(429, {"error": {"message": "slow down"}}, "retry-after: 7\r\n"), 429, "rate_limit_error"),
        (lambda peer: peer.whole(500, {"error": {"message": "boom"}}), 500, "api_error"),
        (lambda peer: peer.whole(503, b"busy"), 503, "overloaded_error"),
        (lambda peer: peer.whole(401, {"error": {"message": "no"}}), 401, "authentication_error"),
        (lambda peer: peer.whole(200, b"not a stream"), 502, "api_error"),
        (raw(b""), 503, "overloaded_error"),
        (raw(b"garbage\r\n\r\n"), 502, "api_error"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"), 502, "api_error"),
        (raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), 502, "api_error"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndata: "), 502, "api_error"),
        (raw(b'HTTP/1.1 200 OK\r\n\r\ndata: {"error":{"message":"bad","code":400}}\n\n'), 400, "invalid_request_error"),
    ],
)
def test_failures_before_the_first_byte_keep_a_status(answer: Any, status: int, kind: str) -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=answer), model=None) as bridge:
            got = await bridge.ask("POST", "/v1/messages", STREAMED)
            assert (got.status, got.json["error"]["type"]) == (status, kind), got.body
            assert got.headers["request-id"] == got.json["request_id"]
            if status == 429:
                assert got.headers["retry-after"] == "7"
            assert bridge.trace[-1]["error"] and bridge.trace[-1]["status"] == status
            await eventually(lambda: bridge.app.engines.first.active == 0 and len(bridge.app.sweep) == 0)

    run(work())


@pytest.mark.parametrize(
    "last",
    [b"", b"zz\r\n", b"7\r\ndata: {\r\n2\r\n\n\n\r\n", b'23\r\ndata: {"error": {"message": "died"}}\n\n\r\n'],
)
def test_failures_after_the_first_byte_are_events(last: bytes) -> None:
    async def dies(peer: Peer) -> None:
        peer.head()
        peer.chunk({"content": "half"})
        await asyncio.sleep(0.05)
        peer.writer.write(last)
        peer.writer.close()

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=dies)) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await whole_of(client)
            assert got.status == 200 and got.events[-1] == "error" and b"half" in got.body
            client.send("GET", "/health")
            assert (await client.get()).status == 200
            assert bridge.trace[0]["error"]
            relayed = await bridge.ask("POST", CHAT, STREAMED)
            assert b"half" in relayed.body

    run(work())


def test_a_refusal_after_pings_is_an_event() -> None:
    async def late(peer: Peer) -> None:
        await asyncio.sleep(0.4)
        peer.whole(429, {"error": {"message": "too much"}})

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=late), ping_s=0.1) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await whole_of(client)
            assert got.status == 200 and got.events[-1] == "error" and b"rate_limit_error" in got.body
            relayed = await bridge.ask("POST", CHAT, STREAMED)
            assert relayed.body.startswith(b": keep-alive\n\n") and b"too much" in relayed.body

    run(work())


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_silent_engine(is_stream: bool) -> None:
    async def silent(peer: Peer) -> None:
        if is_stream:
            peer.head()
        await peer.left()

    async def work() -> None:
        engine = Engine(v1__chat__completions=silent)
        async with pair(engine, ping_s=0.2 if is_stream else 30.0, silence_s=1.0) as bridge:
            got = await bridge.ask("POST", "/v1/messages", STREAMED if is_stream else REQUEST)
            assert b"timeout_error" in got.body and got.status == (200 if is_stream else 504)
            await eventually(lambda: bridge.app.engines.first.active == 0)

    run(work())


def test_saturation_is_quick_and_health_answers() -> None:
    async def endless(peer: Peer) -> None:
        peer.head()
        peer.chunk({"content": "a"})
        await peer.left()

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=endless), limit=4) as bridge:
            clients = [await bridge.client() for _ in range(4)]
            for client in clients:
                client.send("POST", "/v1/messages", STREAMED)
                await client.until(b"a")
            start = asyncio.get_running_loop().time()
            for path, body in (("/v1/messages", STREAMED), ("/v1/messages", REQUEST), (CHAT, STREAMED)):
                got = await bridge.ask("POST", path, body)
                assert (got.status, got.json["error"]["type"], got.headers["retry-after"]) == (529, "overloaded_error", "5")
            assert (await bridge.ask("GET", "/health")).status == 200
            assert (await bridge.ask("GET", "/ready")).status == 200
            assert asyncio.get_running_loop().time() - start < 0.5
            clients[0].close()
            await eventually(lambda: bridge.app.engines.first.active == 3)

    run(work())


def test_connections_to_the_engine_are_used_again() -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=lambda peer: peer.text("Hi") if peer.asked.json.get("stream") else peer.whole(200, WHOLE))
        async with pair(engine) as bridge:
            for body in (STREAMED, REQUEST, STREAMED, REQUEST):
                assert (await bridge.ask("POST", "/v1/messages", body)).status == 200
                await eventually(lambda: bridge.app.engines.first.active == 0)
            assert engine.opened == 1 and bridge.app.engines.first.open_connections == 1

            def last(peer: Peer) -> None:
                peer.whole(200, WHOLE, "connection: close\r\n")

            engine.answers[CHAT] = last
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 200
            assert bridge.app.engines.first.open_connections == 0

    run(work())


def test_a_connection_that_died_in_the_pool_is_not_the_clients_affair() -> None:
    async def work() -> None:
        port = 0
        calls = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal calls
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
            await reader.readexactly(size)
            calls += 1
            body = json.dumps({"choices": [{"message": {"content": str(calls)}, "finish_reason": "stop"}]}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await reader.read(10)  # the next request comes, and gets no answer
            writer.transport.abort()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with bridge_to(port, model=Model(("m",), f"http://127.0.0.1:{port}", context_window=1000)) as bridge:
            answers = [await bridge.ask("POST", "/v1/messages", REQUEST) for _ in range(3)]
            assert [got.json["content"][0]["text"] for got in answers] == ["1", "2", "3"]
        server.close()

    run(work())


def test_an_engine_that_refuses_budgets_is_asked_without() -> None:
    def picky(peer: Peer) -> None:
        if "thinking_token_budget" in peer.asked.json:
            peer.whole(400, {"error": {"message": "thinking_token_budget is not supported"}})
        else:
            peer.text("Hi")

    async def work() -> None:
        engine = Engine(v1__chat__completions=picky)
        async with pair(engine) as bridge:
            body = {**STREAMED, "max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 2000}}
            for _ in range(2):
                client = await bridge.client()
                client.send("POST", "/v1/messages", body)
                assert (await whole_of(client)).events[-1] == "message_stop"
            assert len(engine.of(CHAT)) == 3
            assert any("thinking budget" in note for note in bridge.trace[1]["notes"])

    run(work())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            4000,
            "This model's maximum context length is 4096 tokens. However, you requested 4000 output tokens and your prompt contains at least 97 input tokens, for a total of at least 4097 tokens.",
        ),
        (9000, "max_tokens=9000 cannot be greater than max_model_len=max_total_tokens=4096. Please request fewer output tokens."),
    ],
)
def test_an_answer_that_does_not_fit_is_asked_for_shorter(asked: int, words: str) -> None:
    def picky(peer: Peer) -> None:
        if peer.asked.json["max_tokens"] > 2096:
            peer.whole(400, {"error": {"message": words}})
        else:
            peer.text("Hi")

    async def work() -> None:
        engine = Engine(v1__chat__completions=picky, tokenize=lambda peer: peer.whole(200, {"count": 2000}))
        async with pair(engine) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", {**STREAMED, "max_tokens": asked})
            assert (await whole_of(client)).events[-1] == "message_stop"
            assert [one.json["max_tokens"] for one in engine.of(CHAT)] == [asked, 2096]
            engine.answers["/tokenize"] = lambda peer: peer.whole(200, {"count": 5000})
            got = await bridge.ask("POST", "/v1/messages", {**STREAMED, "max_tokens": asked})
            assert got.status == 400 and got.json["error"]["message"].startswith("prompt is too long: 5000 tokens > 4096 maximum")

    run(work())


def test_a_prompt_far_too_long_never_reaches_the_engine() -> None:
    async def work() -> None:
        engine = Engine(v1__chat__completions=lambda peer: peer.text("Hi"), tokenize=lambda peer: peer.whole(200, {"count": 9000}))
        async with pair(engine) as bridge:
            long = {**STREAMED, "messages": [{"role": "user", "content": "word " * 9000}]}
            got = await bridge.ask("POST", "/v1/messages", long)
            assert got.status == 400 and got.json["error"]["message"].startswith("prompt is too long: 9000 tokens > 4096 maximum")
            assert engine.of(CHAT) == []

    run(work())


def test_an_engine_that_serves_another_model_now() -> None:
    async def work() -> None:
        name = "served/name"

        def picky(peer: Peer) -> None:
            peer.text("Hi") if peer.asked.json["model"] == name else peer.whole(404, {"error": {"message": "The model does not exist."}})

        engine = Engine(
            v1__chat__completions=picky, v1__models=lambda peer: peer.whole(200, {"data": [{"id": name, "max_model_len": 4096}]})
        )
        async with pair(engine) as bridge:
            assert (await bridge.ask("POST", "/v1/messages", STREAMED)).status == 200
            name = "other"
            assert (await bridge.ask("POST", "/v1/messages", STREAMED)).status == 200
            assert [asked.json["model"] for asked in engine.of(CHAT)] == ["served/name", "served/name", "other"]

    run(work())


def test_an_engine_that_only_a_person_can_bring_back(tmp_path: Path) -> None:
    """A certificate that nobody vouches for, and a name that nobody knows, are not the passing absence of an engine that starts."""
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key", "-out", tmp_path / "cert", "-subj", "/CN=localhost"]
    subprocess.run(["openssl", *words], check=True, capture_output=True)

    async def work() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        urls = {f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}": "cannot be trusted: self-signed certificate", "http://engine.invalid": "is not known"}
        for url, says in urls.items():
            async with bridge_to(0, model=Model(("m",), url, context_window=1000)) as bridge:
                got = await bridge.ask("POST", "/v1/messages", STREAMED)
                assert got.status == 502 and says in got.json["error"]["message"]
        server.close()

    run(work())


def test_drain_lets_streams_finish() -> None:
    async def slowly(peer: Peer) -> None:
        peer.head()
        peer.chunk({"content": "a"})
        await asyncio.sleep(0.3)
        peer.chunk({}, "stop")
        peer.done()

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=slowly)) as bridge:
            idle, client = await bridge.client(), await bridge.client()
            idle.send("GET", "/health")
            assert (await idle.get()).status == 200
            new = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await client.until(b"a")
            draining = asyncio.create_task(bridge.app.stop(5))
            assert await asyncio.wait_for(idle.reader.read(), 2) == b""
            with pytest.raises(ConnectionRefusedError):
                await bridge.client()
            new.send("GET", "/health")  # connected in time
            assert (await new.get()).headers["connection"] == "close"
            while piece := await client.piece():
                got.body += piece
            assert got.events[-1] == "message_stop"
            assert await client.reader.read() == b""
            await draining

    run(work())


def test_drain_says_why_it_breaks_off() -> None:
    async def endless(peer: Peer) -> None:
        peer.head()
        peer.chunk({"content": "a"})
        await peer.left()

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=endless)) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await client.until(b"a")
            stopping = asyncio.create_task(bridge.app.stop(0.2))
            while piece := await client.piece():
                got.body += piece
            assert got.events[-1] == "error" and b"restarting" in got.body
            await stopping

    run(work())


def test_a_fault_of_ours_is_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=lambda peer: peer.text("Hi"))) as bridge:
            monkeypatch.setattr("pod.bridge.events.MessageStream._choice", lambda *_: 1 // 0)
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await whole_of(client)
            assert got.events[-1] == "error" and "ZeroDivisionError" in bridge.logged[0]
            bridge.logged.clear()
            monkeypatch.setattr("pod.bridge.translate.chat_request", lambda *_: 1 // 0)
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).status == 500
            assert "ZeroDivisionError" in bridge.logged[0]
            bridge.logged.clear()

    run(work())


def test_one_sweep_for_all_streams() -> None:
    async def endless(peer: Peer) -> None:
        peer.head()
        await peer.left(20)

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=endless), ping_s=0.4, limit=300) as bridge:
            clients = [await bridge.client() for _ in range(200)]
            for client in clients:
                client.send("POST", "/v1/messages", STREAMED)
            got = await asyncio.gather(*(client.until(b"ping") for client in clients))
            assert all(one.status == 200 for one in got)
            await eventually(lambda: len(bridge.app.sweep) == 200 and not bridge.app._tasks)
            assert bridge.app.sweep.tick <= live.MAX_TICK_S
            for client in clients:
                client.close()
            await eventually(lambda: len(bridge.app.sweep) == 0)

    run(work())
