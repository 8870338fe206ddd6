"""What the bridge costs, and whether it keeps still: a scripted engine, a bridge as its own process, and clients.

`python -m tests.bench.bridge cost`   CPU microseconds a streamed token, as fast as they come and paced, in each mode
`python -m tests.bench.bridge idle`   CPU and memory of 1,000 open streams into which only pings go
`python -m tests.bench.bridge soak`   streams and aborts for a while; ends with 1 where memory or descriptors grow

Needs psutil, and what `podwright[bridge]` installs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
STREAMS = 64
PACE = 50.0  # tokens a second of one stream, as a GPU with many sequences gives them
# What a process may gain after it has warmed up: fragments of the allocator, and no more.
MAX_GROWTH_MIB = 12.0
_TOKEN = re.compile(rb'"(?:text|content)": ?"t\d')


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


async def serve_engine(tokens: int, pace: float) -> int:
    """An engine on a port of its own; `pace` 0 sends as fast as it goes, a negative one a single token and then nothing."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                size = re.search(rb"content-length: (\d+)", head.lower())
                await reader.readexactly(int(size[1]) if size else 0)
                if path == "/v1/models":
                    body = b'{"data": [{"id": "m", "max_model_len": 262144}]}'
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
                else:
                    await stream(reader, writer, path)
        writer.close()

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + frame(path, True))
        begun = time.monotonic()
        for i in range(tokens if pace >= 0 else 1):
            writer.write(pieces(path, i))
            if pace > 0:
                await asyncio.sleep(max(0.0, begun + (i + 1) / pace - time.monotonic()))
            elif i % 16 == 15:
                await writer.drain()
                await asyncio.sleep(0)
            if writer.is_closing():
                raise ConnectionError
        if pace < 0:
            await reader.read()
        writer.write(frame(path, False) + b"0\r\n\r\n")

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096, limit=1 << 22)
    return int(server.sockets[0].getsockname()[1])


@contextlib.asynccontextmanager
async def bridge(engine: int, *words: str) -> AsyncIterator[tuple[psutil.Process, int]]:
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
        yield psutil.Process(process.pid), port
    finally:
        process.kill()
        await process.wait()


def request() -> bytes:
    body = json.dumps({"model": "m", "max_tokens": 4096, "stream": True, "messages": [{"role": "user", "content": "hi"}]}).encode()
    return b"POST /v1/messages HTTP/1.1\r\nhost: bench\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def read_stream(port: int, rounds: int) -> int:
    """Tokens of some streams, one after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    tokens = 0
    for _ in range(rounds):
        writer.write(request())
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readline(), 16):
            tokens += len(_TOKEN.findall(await reader.readexactly(size + 2)))
        await reader.readline()
    writer.close()
    return tokens


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / (1 << 20)


async def cost() -> int:
    for mode in ("translate", "native", "keepalive"):
        for name, pace, tokens, rounds in (("as fast as they come", 0.0, 500, 6), ("paced", PACE, 250, 1)):
            async with bridge(await serve_engine(tokens, pace), "--mode", mode) as (process, port):
                await read_stream(port, 1)
                before = cpu_s(process)
                counts = await asyncio.gather(*(read_stream(port, rounds) for _ in range(STREAMS)))
                assert sum(counts) == STREAMS * rounds * tokens, (sum(counts), STREAMS * rounds * tokens)
                each = 1e6 * (cpu_s(process) - before) / sum(counts)
                print(f"{mode:10} {name:21} {each:6.1f} us of CPU a token, {mib(process):.0f} MiB")
    return 0


async def idle(seconds: float) -> int:
    async with bridge(await serve_engine(1, -1.0)) as (process, port):
        writers = []
        for i in range(1000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request())
            writers.append((reader, writer))
            if i % 50 == 49:
                await asyncio.gather(*(reader.readuntil(b"text_delta") for reader, _ in writers[-50:]))
        before, begun = cpu_s(process), time.monotonic()
        await asyncio.sleep(seconds)
        share = 100 * (cpu_s(process) - before) / (time.monotonic() - begun)
        print(f"1000 open streams: {share:.2f} % of a core, {mib(process):.0f} MiB")
        for _, writer in writers:
            writer.close()
    return 0


async def soak(seconds: float) -> int:
    chance = random.Random(1)
    done = 0

    async def one(port: int, until: float) -> None:
        nonlocal done
        while time.monotonic() < until:
            if chance.random() < 0.5:
                assert await read_stream(port, 1) == 40
            else:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request())
                if chance.random() < 0.8:
                    await reader.read(1000)
                await asyncio.sleep(chance.random() * 0.2)
                writer.transport.abort()
            done += 1

    async with bridge(await serve_engine(40, 100.0)) as (process, port):
        await asyncio.gather(*(one(port, time.monotonic() + min(10.0, seconds / 4)) for _ in range(STREAMS)))
        await asyncio.sleep(3)
        memory, files, warm = mib(process), process.num_fds(), done
        await asyncio.gather(*(one(port, time.monotonic() + seconds) for _ in range(STREAMS)))
        await asyncio.sleep(6)  # longer than a connection to the engine is kept
        grown, more = mib(process) - memory, process.num_fds() - files
        print(f"{done - warm} streams in {seconds:g} s: memory {memory:.1f} MiB {grown:+.1f}, descriptors {files} {more:+d}")
        return int(grown > MAX_GROWTH_MIB or more > 0)


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cost", "idle", "soak"))
    parser.add_argument("--seconds", type=float, default=45.0, help="of idle and soak (%(default)g)")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 1 << 14)), hard))
    work = cost() if options.what == "cost" else idle(options.seconds) if options.what == "idle" else soak(options.seconds)
    return asyncio.run(work)


if __name__ == "__main__":
    sys.exit(main())
