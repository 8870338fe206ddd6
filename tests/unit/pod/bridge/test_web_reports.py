"""Reports whose answer is the network's: who is told what and when, whose connection ends, what is never copied."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

import pytest
from pod.bridge.settings import MAX_BODY, Model

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import REQUEST, STREAMED, Engine, Peer, bridge_to, eventually, pair, run
from tests.unit.pod.bridge.play import cases

CHAT = "/v1/chat/completions"
MODES = ("translate", "native", "keepalive")
ANSWER = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("body", [REQUEST, STREAMED], ids=["whole", "streamed"])
def test_who_leaves_during_prefill_ends_it_within_a_second(mode: str, body: dict[str, Any]) -> None:
    """live-07."""

    async def work() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def reads_on(peer: Peer) -> None:
            arrived.set()
            if await peer.left():
                left.set()

        async with pair(Engine(v1__chat__completions=reads_on, v1__messages=reads_on), mode=mode) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", body)
            await arrived.wait()
            client.close()
            await asyncio.wait_for(left.wait(), 1)
            await eventually(lambda: bridge.app.engines.first.open_connections <= 1 and not bridge.app.server.connections)
            assert bridge.trace[0]["status"] == 499

    run(work())


def test_an_answer_that_is_begun_goes_on_in_native_mode_too() -> None:
    """rc-13: vLLM's own Messages API would begin another answer."""

    async def work() -> None:
        engine = Engine(v1__chat__completions=lambda peer: peer.text("42}"), tokenize=lambda peer: peer.whole(200, {"count": 12}))
        async with pair(engine, mode="native") as bridge:
            messages = [*REQUEST["messages"], {"role": "assistant", "content": '{"answer":'}]  # type: ignore[misc]
            got = await bridge.ask("POST", "/v1/messages", {**STREAMED, "messages": messages})
            judge = judged(got.body)
            assert judge.faults == [] and judge.blocks[0]["text"] == "42}"
            sent = engine.of(CHAT)[0].json
            assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (True, False) and engine.of("/v1/messages") == []
            counted = await bridge.ask("POST", "/v1/messages/count_tokens", {"model": "m", "messages": messages})
            assert counted.json == {"input_tokens": 12} and engine.of("/tokenize")[0].json["continue_final_message"] is True

    run(work())


@pytest.mark.parametrize("mode", MODES)
def test_the_first_piece_is_there_before_the_engine_makes_the_second(mode: str) -> None:
    """live-08."""

    async def work() -> None:
        seen = asyncio.Event()

        async def in_two(peer: Peer) -> None:
            peer.head()
            if peer.asked.path == CHAT:
                peer.chunk({"content": "first"})
            else:
                for data in (
                    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 0}}},
                    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "first"}},
                ):
                    peer.raw(f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode())
            await peer.writer.drain()
            await seen.wait()
            peer.writer.write(b"0\r\n\r\n")

        async with pair(Engine(v1__chat__completions=in_two, v1__messages=in_two), mode=mode) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await asyncio.wait_for(client.until(b"first"), 2)
            assert "content-length" not in got.headers and got.headers["x-accel-buffering"] == "no"
            seen.set()

    run(work())


@pytest.mark.parametrize("after_a_ping", [False, True])
def test_an_engine_that_says_200_and_nothing_more(after_a_ping: bool) -> None:
    """life-21."""

    async def says_200(peer: Peer) -> None:
        await asyncio.sleep(0.3 if after_a_ping else 0)
        peer.writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        peer.writer.close()

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=says_200), ping_s=0.1 if after_a_ping else 30) as bridge:
            client = await bridge.client()
            client.send("POST", "/v1/messages", STREAMED)
            got = await client.get()
            if after_a_ping:
                assert got.status == 200 and judged(got.body).faults == []
                assert got.events.count("error") == 1 and got.events[-1] == "error" and b"api_error" in got.body
            else:
                assert (got.status, got.json["error"]["type"]) == (502, "api_error")

    run(work())


def test_every_answer_has_a_request_id() -> None:
    """mh-12."""

    async def work() -> None:
        def named(peer: Peer) -> None:
            peer.text("Hi") if peer.asked.json.get("stream") else peer.whole(200, {"id": "chatcmpl-77", **ANSWER}, "x-request-id: engine-9\r\n")

        refuse = Engine(v1__chat__completions=named, v1__completions=lambda peer: peer.whole(400, {"error": {"message": "no"}}, "x-request-id: odd\r\n"))
        async with pair(refuse, max_body=10_000) as bridge:
            seen = []
            for method, path, body, status in (
                ("POST", "/v1/messages", REQUEST, 200), ("POST", "/v1/messages", STREAMED, 200), ("GET", "/v1/models", None, 200),
                ("POST", "/v1/completions", REQUEST, 400), ("POST", "/v1/messages", {"max_tokens": 1}, 400), ("GET", "/nope", None, 404),
                ("GET", "/v1/messages", None, 405), ("POST", "/v1/messages", b" " * 10_001, 413), ("OPTIONS", "/", None, 204), ("HEAD", "/", None, 200),
            ):  # fmt: skip
                got = await bridge.ask(method, path, body)
                assert got.status == status and got.headers["request-id"].startswith("req_")
                if status >= 400 and path != "/v1/completions":
                    assert got.json["request_id"] == got.headers["request-id"]
                seen.append(got.headers["request-id"])
            assert len(set(seen)) == len(seen)
            whole, streamed = bridge.trace[:2]
            assert (whole["request"], whole["engine_request"]) == (seen[0], "engine-9")
            assert (streamed["message"], streamed["engine_request"]) == ("msg_" + seen[1][4:], "c")

    run(work())


def packed(encoding: str, data: bytes, content_type: str) -> Any:
    body = gzip.compress(data) if encoding == "gzip" else zlib.compress(data) if encoding == "deflate" else data
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-encoding: {encoding}\r\ntransfer-encoding: chunked\r\n\r\n"

    async def answer(peer: Peer) -> None:
        peer.writer.write(head.encode())
        for i in range(0, len(body), 20):
            peer.raw(body[i : i + 20])
            await peer.writer.drain()
        peer.writer.write(b"0\r\n\r\n")

    return answer


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_answer_is_unpacked_and_its_headers_stay_behind(encoding: str) -> None:
    """mh-13."""

    async def work() -> None:
        engine = Engine(v1__chat__completions=packed(encoding, STREAM, "text/event-stream"))
        async with pair(engine) as bridge:
            for path, expected in (("/v1/messages", b"message_stop"), (CHAT, STREAM)):
                got = await bridge.ask("POST", path, STREAMED, {"accept-encoding": "gzip, br, zstd"})
                assert got.status == 200 and expected in got.body
                assert not {"content-encoding", "content-length"} & got.headers.keys() and "connection" not in got.headers
            assert engine.of(CHAT)[0].headers["accept-encoding"] == "identity"
            engine.answers[CHAT] = packed(encoding, json.dumps(ANSWER).encode(), "application/json")
            assert (await bridge.ask("POST", "/v1/messages", REQUEST)).json["content"][0]["text"] == "Hello."
            got = await bridge.ask("POST", CHAT, REQUEST)
            assert got.json == ANSWER and "content-encoding" not in got.headers and "transfer-encoding" not in got.headers

    run(work())


@pytest.mark.parametrize(("encoding", "says"), [("br", "packed by br"), ("gzip, br", "packed by gzip, br"), ("gzip", "and is not")])
def test_a_packing_that_cannot_be_undone_is_told(encoding: str, says: str) -> None:
    async def plain(peer: Peer) -> None:
        await packed("br", STREAM, "text/event-stream")(peer) if encoding == "br" else raw(peer)

    def raw(peer: Peer) -> None:
        peer.writer.write(f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: 6\r\n\r\ndata: ".encode())

    async def work() -> None:
        async with pair(Engine(v1__chat__completions=plain)) as bridge:
            for body in (STREAMED, REQUEST):
                got = await bridge.ask("POST", "/v1/messages", body)
                assert got.status == 502 and says in got.json["error"]["message"]
            await eventually(lambda: bridge.app.engines.first.active == 0)

    run(work())


def test_size_and_length_are_told_apart() -> None:
    """mh-19: 413 is for bytes alone, a prompt that is too long is 400 however large it is."""

    async def work() -> None:
        assert MAX_BODY >= 32 << 20
        engine = Engine(v1__chat__completions=lambda peer: peer.whole(200, ANSWER), tokenize=lambda peer: peer.whole(200, {"count": 5000}))
        async with pair(engine, max_body=100_000) as bridge:
            got = await bridge.ask("POST", "/v1/messages", {**REQUEST, "messages": [{"role": "user", "content": "a" * 100_000}]})
            assert (got.status, got.json["error"]["type"]) == (413, "request_too_large")
            got = await bridge.ask("POST", "/v1/messages", {**REQUEST, "messages": [{"role": "user", "content": "a" * 99_000}]})
            assert (got.status, got.json["error"]["message"][:42]) == (400, "prompt is too long: 5000 tokens > 4096 max")
            shot = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "a" * 99_000}}
            got = await bridge.ask("POST", "/v1/messages", {**REQUEST, "messages": [{"role": "user", "content": [shot]}]})
            assert got.status == 200  # a picture costs tokens by its size, not by its bytes

    run(work())


@pytest.mark.parametrize(("prompt", "budget"), [(150_000, 50_000), (196_000, 50_000)])
def test_an_answer_that_does_not_fit(prompt: int, budget: int) -> None:
    """rf-05."""

    def picky(peer: Peer) -> None:
        asked = peer.asked.json["max_tokens"]
        if prompt + asked > 196_608:
            words = f"'max_tokens' or 'max_completion_tokens' is too large: {asked}. This model's maximum context length is 196608 tokens and your request has {prompt} input tokens"
            peer.whole(400, {"error": {"message": words, "type": "BadRequestError", "code": 400}})
        else:
            peer.text("ok")

    async def work() -> None:
        engine = Engine(v1__chat__completions=picky)
        async with pair(engine, thinking_budget=True) as bridge:
            body = {**STREAMED, "max_tokens": 64_000, "thinking": {"type": "enabled", "budget_tokens": budget}}
            got = await bridge.ask("POST", "/v1/messages", body)
            sent = [one.json for one in engine.of(CHAT)]
            if prompt == 150_000:
                assert judged(got.body).faults == [] and got.events[-1] == "message_stop"
                assert [one["max_tokens"] for one in sent] == [64_000, 46_608] and sent[1]["thinking_token_budget"] < 46_608
                assert "max_tokens 64000 became 46608" in "; ".join(bridge.trace[0]["notes"])
            else:
                words = "input length and `max_tokens` exceed context limit: 196000 + 64000 > 196608"
                assert got.status == 400 and got.json["error"]["message"].startswith(words) and len(sent) == 1

    run(work())


def test_models_by_the_recorded_requests() -> None:
    """mh-01 and mh-18."""

    async def work() -> None:
        by_id = {case.id: case for case in cases()}
        model = Model(("org/Name-7B:fp8",), "http://127.0.0.1:9", context_window=1000)
        async with bridge_to(9, model=model) as bridge:
            entries = [await bridge.ask(one["method"], one["path"], None, one["headers"]) for one in by_id["mh-18"].exchanges if one["method"] == "GET"]
            assert [got.json["id"] for got in entries] == ["org/Name-7B:fp8"] * 2 and entries[0].body == entries[1].body
            anthropic, openai = [(await bridge.ask("GET", one["path"], None, one["headers"])).json for one in by_id["mh-01"].exchanges]
            assert anthropic["has_more"] is False and anthropic["data"][0]["type"] == "model"
            assert openai["object"] == "list" and openai["data"][0]["owned_by"]
            for headers, kind in (({"anthropic-version": "2023-06-01"}, "not_found_error"), ({}, "not_found_error")):
                got = await bridge.ask("GET", "/v1/models/nobody", None, headers)
                assert (got.status, got.json["error"]["type"]) == (404, kind)

    run(work())
