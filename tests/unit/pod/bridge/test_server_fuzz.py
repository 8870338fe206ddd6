"""Any request and any answer over real sockets: never an error of our own, never a stream that is not legal, never a hang."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pod.bridge.legal import judged
from tests.unit.pod.bridge.net import Engine, Peer, pair
from tests.unit.pod.bridge.test_garbage_property import chunks, junk, relaxed, requests, upstreams

PATHS = ("/v1/messages", "/v1/messages", "/v1/messages?beta=true", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/embeddings")
answers = st.one_of(
    st.tuples(st.sampled_from([200, 200, 200, 400, 404, 429, 500, 503, 599]), upstreams(chunks)),
    st.tuples(st.sampled_from([200, 400, 500]), junk.map(lambda value: json.dumps(value).encode())),
)
asked = st.tuples(st.sampled_from(PATHS), st.one_of(requests, requests, junk), st.booleans(), answers)


@relaxed
@given(st.lists(asked, min_size=10, max_size=30), st.sampled_from(["translate", "native", "keepalive"]))
def test_property_any_request_over_http(all_asked: list[tuple[str, Any, bool, tuple[int, bytes]]], mode: str) -> None:
    answer = (200, b"")

    def any_answer(peer: Peer) -> None:
        status, data = answer
        kind = "text/event-stream" if status == 200 and data[:5] in (b"data:", b"event") else "application/json"
        peer.writer.write(b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (status, kind.encode(), len(data), data))

    async def work() -> None:
        nonlocal answer
        engine = Engine(v1__messages=any_answer, v1__chat__completions=any_answer, v1__embeddings=any_answer, tokenize=any_answer)
        async with pair(engine, mode=mode) as bridge:
            for path, body, streamed, answered in all_asked:
                answer = answered
                if streamed and isinstance(body, dict):
                    body = {**body, "stream": True}
                got = await asyncio.wait_for(bridge.ask("POST", path, json.dumps(body).encode()), 10)
                assert b"The bridge failed" not in got.body
                if path.startswith("/v1/messages") and mode != "keepalive":
                    check(got.status, got.headers["content-type"], got.body)
            await asyncio.sleep(0)
            assert bridge.app.engines.first.active == 0 and bridge.app.server.held == 0

    asyncio.run(work())


def check(status: int, kind: str, body: bytes) -> None:
    """A legal stream, a message or a count, or an error in the right shape."""
    if kind.startswith("text/event-stream"):
        assert judged(body).faults == []
        return
    data = json.loads(body)
    if status == 200:
        assert data.get("type") == "message" or isinstance(data["input_tokens"], int)
    else:
        assert data["type"] == "error" and data["error"]["message"] and data["request_id"].startswith("req_")
