"""What the bridge's benches share: a scripted engine, a bridge as its own process, a client that counts tokens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.bench.process import Process

ROOT = Path(__file__).resolve().parents[2]
STREAMS = 64
LIMIT = 1 << 22
# As vLLM's server does with a connection that has nothing to do.
IDLE_S = 5.0
_TOKEN = re.compile(rb'"(?:text|content)": ?"t\d')
# What a prompt says to the scripted engine.
REFUSE, DIE = "refuse this", "die in the middle"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def pieces(path: str, i: int) -> bytes:
    """One token in the protocol of a path."""
    if path == "/v1/messages":
        data = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f"t{i} "}}
        return chunk(b"event: content_block_delta\ndata: " + json.dumps(data).encode() + b"\n\n")
    usage = {"prompt_tokens": 100, "total_tokens": 100 + i, "completion_tokens": i}
    data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": usage,
            "choices": [{"index": 0, "delta": {"content": f"t{i} "}, "logprobs": None, "finish_reason": None}]}  # fmt: skip
    return chunk(b"data: " + json.dumps(data).encode() + b"\n\n")


def frame(path: str, first: bool) -> bytes:
    """What stands before and after the tokens."""
    if path != "/v1/messages":
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        return b"" if first else chunk(b"data: " + json.dumps(end).encode() + b"\n\n") + chunk(b"data: [DONE]\n\n")
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 100, "output_tokens": 0}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ] if first else [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return b"".join(chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()) for event in events)


def whole(status: int, data: Any) -> bytes:
    """An answer in one piece."""
    body = json.dumps(data).encode()
    return b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


def short_answer(path: str, body: bytes) -> bytes | None:
    """What the engine says where it does not stream."""
    if path == "/v1/models":
        return whole(200, {"data": [{"id": "m", "max_model_len": 262144}]})
    if path == "/tokenize":
        return whole(200, {"count": 100})
    if REFUSE.encode() in body:
        return whole(429, {"error": {"message": "too much"}})
    if path == "/v1/chat/completions" and b'"stream":true' not in body.replace(b" ", b""):
        return whole(200, {"choices": [{"message": {"content": "t0 "}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}})
    return None


async def serve_engine(tokens: int, pace: float) -> int:
    """An engine on a port of its own; `pace` 0 sends as fast as it goes, a negative one a single token and then nothing."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            while True:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), IDLE_S)
                path = head.split(b" ", 2)[1].decode()
                size = re.search(rb"content-length: (\d+)", head.lower())
                body = await reader.readexactly(int(size[1]) if size else 0)
                if short := short_answer(path, body):
                    writer.write(short)
                else:
                    await stream(reader, writer, path, tokens // 2 if DIE.encode() in body else None)
        writer.close()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, dies_at: int | None) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + frame(path, True))
        begun = time.monotonic()
        for i in range(tokens if pace >= 0 else 1):
            writer.write(pieces(path, i))
            if pace > 0:
                await asyncio.sleep(max(0.0, begun + (i + 1) / pace - time.monotonic()))
            elif i % 16 == 15:
                await writer.drain()
                await asyncio.sleep(0)
            if writer.is_closing() or i == dies_at:
                raise ConnectionError
        if pace < 0:
            await reader.read()
        writer.write(frame(path, False) + b"0\r\n\r\n")

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096, limit=LIMIT)
    return int(server.sockets[0].getsockname()[1])


@contextlib.asynccontextmanager
async def bridge(engine: int, *words: str) -> AsyncIterator[tuple[Process, int]]:
    """A bridge in front of the engine, and its port."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "images" / "runtime")}
    command = [sys.executable, "-m", "pod.bridge", "--listen", "127.0.0.1:0", "--upstream", f"http://127.0.0.1:{engine}", *words]
    process = await asyncio.create_subprocess_exec(*command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    port = 0
    while not port:
        line = (await process.stderr.readline()).decode()
        assert line, "the bridge did not start"
        port = int(line.split("http://127.0.0.1:")[1].split(" ")[0]) if "http://127.0.0.1:" in line else 0
    try:
        yield Process(process.pid), port
    finally:
        process.kill()
        await process.wait()


def request(path: str = "/v1/messages", prompt: str = "hi", stream: bool = True) -> bytes:
    body = json.dumps({"model": "m", "max_tokens": 4096, "stream": stream, "messages": [{"role": "user", "content": prompt}]}).encode()
    return b"POST %b HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


async def read_stream(port: int, rounds: int) -> int:
    """Tokens of some streams, one after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LIMIT)
    tokens = 0
    for _ in range(rounds):
        writer.write(request())
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readline(), 16):
            tokens += len(_TOKEN.findall(await reader.readexactly(size + 2)))
        await reader.readline()
    writer.close()
    return tokens
