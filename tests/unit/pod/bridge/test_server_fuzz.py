"""Any request and any answer over real sockets: never an error of our own, never a stream that is not legal, never a hang.

One example is 20 requests, so that 1,000 of them (`HYPOTHESIS_PROFILE=thousand`, which .ci/run does) are 20,000.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, NamedTuple
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import REQUEST, STREAMED, Engine, Got, Peer, eventually, pair
from tests.unit.pod.bridge.test_garbage_property import chunks, junk, native_events, relaxed, requests, texts, upstreams

REQUESTS = 20
MODES = ("translate", "native", "keepalive")
MESSAGES = ("/v1/messages", "/v1/messages?beta=true", "/v1/messages/count_tokens")
RELAYED = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/tokenize")
READ = ("/v1/models", "/v1/models/served%2Fname", "/health", "/ready", "/", "/metrics", "/console", "/console/data", "/nothing")


class Answer(NamedTuple):
    """What the engine says, and how: with its length, in chunks, or broken off after its half."""

    status: int
    data: bytes
    how: str


class Ask(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]
    answer: Answer


encoded = junk.map(lambda value: json.dumps(value).encode())
answers = st.builds(
    Answer,
    st.sampled_from([200, 200, 200, 200, 400, 404, 429, 500, 503, 599]),
    st.one_of(upstreams(chunks), upstreams(chunks), upstreams(native_events), encoded, st.binary(max_size=30)),
    st.sampled_from(["length", "length", "chunks", "half"]),
)
# What a header may hold; the rest is a matter of `test_property_any_bytes_on_a_connection`.
values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
headers = st.dictionaries(
    st.sampled_from(["anthropic-version", "anthropic-beta", "x-api-key", "authorization", "accept-encoding", "content-type", "user-agent", "origin",
                     "x-claude-code-session-id", "x-stainless-retry-count", "expect"]), values, max_size=3)  # fmt: skip
queries = st.one_of(st.just(""), st.just(""), st.builds(lambda key, value: f"?{key}={quote(value)}", st.sampled_from(["limit", "after_id", "before_id", "x"]), texts))
bodies = st.one_of(
    st.tuples(requests, st.booleans()).map(lambda made: json.dumps({**made[0], "stream": True} if made[1] and isinstance(made[0], dict) else made[0]).encode()),
    encoded,
    st.binary(max_size=40),
    st.builds(lambda made, at: json.dumps(made).encode()[: at % 400], requests, st.integers(0, 400)),
)
posts = st.builds(Ask, st.just("POST"), st.sampled_from(MESSAGES * 3 + RELAYED), bodies, headers, answers)
reads = st.builds(
    lambda method, path, query, head, answer: Ask(method, path + query, b"" if method in ("POST", "PUT") else None, head, answer),
    st.sampled_from(["GET", "GET", "HEAD", "DELETE", "OPTIONS", "PUT", "POST"]), st.sampled_from(READ + MESSAGES), queries, headers, answers)  # fmt: skip


def answering(peer: Peer, answer: Answer) -> None:
    """Sends an answer of the engine."""
    kind = b"text/event-stream" if answer.status == 200 and answer.data[:5] in (b"data:", b"event") else b"application/json"
    size = b"transfer-encoding: chunked" if answer.how == "chunks" else b"content-length: %d" % len(answer.data)
    peer.writer.write(b"HTTP/1.1 %d X\r\ncontent-type: %b\r\n%b\r\n\r\n" % (answer.status, kind, size))
    if answer.how == "chunks":
        for i in range(0, len(answer.data), 50):
            peer.raw(answer.data[i : i + 50])
        peer.writer.write(b"0\r\n\r\n")
    else:
        peer.writer.write(answer.data[: len(answer.data) // 2] if answer.how == "half" else answer.data)
    if answer.how == "half":
        peer.writer.close()


@relaxed
@given(st.lists(st.one_of(posts, posts, posts, reads), min_size=REQUESTS, max_size=REQUESTS), st.sampled_from(MODES))
def test_property_any_request_over_http(all_asked: list[Ask], mode: str) -> None:
    asked = all_asked[0]
    engine = Engine()
    for path in ("/v1/messages", *RELAYED, "/v1/messages/count_tokens"):
        engine.answers[path] = lambda peer: answering(peer, asked.answer)

    async def work() -> None:
        nonlocal asked
        async with pair(engine, mode=mode) as bridge:
            for asked in all_asked:
                got = await asyncio.wait_for(bridge.ask(asked.method, asked.path, asked.body, asked.headers), 10)
                check(asked, got, mode)
            await eventually(lambda: bridge.app.engines.first.active == 0 and bridge.app.server.held == 0)

    asyncio.run(work())


def check(asked: Ask, got: Got, mode: str) -> None:
    """A status that the request or the engine deserved; a legal stream, a message, a count, or an error in the right shape."""
    assert b"The bridge failed" not in got.body and got.headers["request-id"].startswith("req_")
    if got.status >= 500 and got.status not in (502, 503, 529):
        assert asked.answer.status == got.status, got.body
    if asked.method != "POST" or not asked.path.startswith("/v1/messages") or mode == "keepalive":
        return
    if got.headers["content-type"].startswith("text/event-stream"):
        assert judged(got.body).faults == []
        return
    data = json.loads(got.body)
    if got.status == 200:
        assert data.get("type") == "message" or isinstance(data["input_tokens"], int)
    else:
        assert data["type"] == "error" and data["error"]["message"] and data["request_id"].startswith("req_")


def written(method: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    return b"%b /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (method.encode(), len(data), data)


sound = st.sampled_from([written("POST", REQUEST), written("POST", STREAMED), written("GET", {}), b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n",
                         b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"])  # fmt: skip
broken = st.builds(
    lambda data, at, new, gone: data[: at % len(data)] + new + data[at % len(data) + gone :], sound, st.integers(0, 5000), st.binary(max_size=6), st.integers(0, 9)
)


def sensible(peer: Peer) -> None:
    if peer.asked.json.get("stream"):
        peer.text("Hi")
    else:
        peer.whole(200, {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})


@relaxed
@given(st.lists(st.one_of(broken, broken, sound, st.binary(max_size=60)), min_size=REQUESTS, max_size=REQUESTS), st.booleans())
def test_property_any_bytes_on_a_connection(all_sent: list[bytes], ends: bool) -> None:
    async def work() -> None:
        async with pair(Engine(v1__chat__completions=sensible)) as bridge:
            for sent in all_sent:
                client = await bridge.client()
                client.writer.write(sent)
                if ends:
                    client.writer.write_eof()
                    await said(client.reader)
                else:
                    with contextlib.suppress(TimeoutError):  # a request that is not complete waits for the rest
                        await asyncio.wait_for(said(client.reader), 0.01)
                client.writer.transport.abort()
            assert (await bridge.ask("GET", "/health")).status == 200
            await eventually(lambda: bridge.app.engines.first.active == 0 and bridge.app.server.held == 0)

    asyncio.run(asyncio.wait_for(work(), 60))


async def said(reader: asyncio.StreamReader) -> None:
    """Reads to the end; every status on the way is below 500."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            data += piece
            assert not data.startswith(b"HTTP/1.1 5") and b"\nHTTP/1.1 5" not in data, data
