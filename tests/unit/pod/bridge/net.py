"""A scripted engine, a bridge in front of it, and a client, all on real sockets of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from pod.bridge.app import App
from pod.bridge.settings import Model, Settings

REQUEST = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
STREAMED = {**REQUEST, "stream": True}


@dataclasses.dataclass
class Asked:
    """One request that the engine got."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Peer:
    """The engine's side of one request."""

    def __init__(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked, self.reader, self.writer = asked, reader, writer

    def whole(self, status: int, body: Any, headers: str = "") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n{headers}\r\n".encode() + data
        )

    def head(self, content_type: str = "text/event-stream; charset=utf-8") -> None:
        self.writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode())

    def raw(self, data: bytes) -> None:
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))

    def chunk(self, delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> None:
        choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
        self.raw(b"data: " + json.dumps({"id": "c", "choices": [choice], **more}).encode() + b"\n\n")

    def done(self) -> None:
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 16}}
        self.raw(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")

    def text(self, *pieces: str) -> None:
        """A whole short stream."""
        self.head()
        self.chunk({"role": "assistant", "content": ""})
        for piece in pieces:
            self.chunk({"content": piece})
        self.chunk({}, "stop")
        self.done()

    async def left(self, seconds: float = 5.0) -> bool:
        """Whether the bridge closed the connection within the time."""
        try:
            return await asyncio.wait_for(self.reader.read(1), seconds) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


Answering = Callable[[Peer], Awaitable[None] | None]


class Engine:
    """Answers by path; what has no answer gets 404."""

    def __init__(self, **answers: Answering) -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self.opened = 0
        self.answers: dict[str, Answering] = {
            "/v1/models": lambda peer: peer.whole(200, {"data": [{"id": "served/name", "max_model_len": 4096}]}),
            "/health": lambda peer: peer.whole(200, b""),
            "/metrics": lambda peer: peer.whole(200, b"vllm:num_requests_running 3\n"),
            **{"/" + path.replace("__", "/"): answer for path, answer in answers.items()},
        }

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 26, backlog=2000)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.opened += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                asked = await self._read(reader)
                self.asked.append(asked)
                answer = self.answers.get(
                    asked.path.partition("?")[0], lambda peer: peer.whole(404, {"error": {"message": "no such route"}})
                )
                done = answer(Peer(asked, reader, writer))
                if done is not None:
                    await done
                await writer.drain()
                if writer.is_closing():
                    break
        self.connections -= 1
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        return Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))

    def of(self, path: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.partition("?")[0] == path]


@dataclasses.dataclass
class Got:
    """An answer as the client has it; of a stream, the frames so far."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[str]:
        return [line.removeprefix(b"event: ").decode() for line in self.body.split(b"\n") if line.startswith(b"event: ")]


class Client:
    """One connection to the bridge."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> None:
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"host": "bridge", **({"content-length": str(len(data))} if body is not None else {}), **(headers or {})}
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\n{''.join(f'{k}: {v}' + chr(13) + chr(10) for k, v in lines.items())}\r\n".encode() + data
        )

    async def head(self) -> Got:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        return Got(int(lines[0].split(" ")[1]), headers, b"")

    async def piece(self) -> bytes:
        """The next chunk; empty at the end."""
        size = int((await self.reader.readline()).strip(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def get(self, method: str = "GET") -> Got:
        got = await self.head()
        if "content-length" in got.headers:
            got.body = b"" if method == "HEAD" else await self.reader.readexactly(int(got.headers["content-length"]))
            return got
        pieces = []
        while piece := await self.piece():
            pieces.append(piece)
        got.body = b"".join(pieces)
        return got

    async def until(self, text: bytes) -> Got:
        """The answer up to a text in its body."""
        got = await self.head()
        while text not in got.body:
            got.body += await self.piece()
        return got

    def close(self) -> None:
        self.writer.close()


class Bridge:
    """A running bridge; `lines` are its trace."""

    def __init__(self, app: App, port: int, lines: list[str], logged: list[str]) -> None:
        self.app, self.port, self.lines, self.logged = app, port, lines, logged

    async def client(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24))

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Got:
        client = await self.client()
        client.send(method, path, body, headers)
        try:
            return await client.get(method)
        finally:
            client.close()

    @property
    def trace(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@contextlib.asynccontextmanager
async def bridge_to(
    port: int, *, environ: dict[str, str] | None = None, limit: int = 100, models: tuple[Model, ...] = (), model: Model | None = None,
    **settings: Any
) -> AsyncIterator[Bridge]:
    lines: list[str] = []
    logged: list[str] = []
    chosen = Settings(models or (model or Model((), f"http://127.0.0.1:{port}"),), port=0, **{"ping_s": 30.0, **settings})
    app = App(chosen, environ=environ or {}, write=lines.append, log=logged.append, limit=limit)
    _, own = await app.start()
    try:
        yield Bridge(app, own, lines, logged)
    finally:
        await app.stop(0.05)
        assert logged == [], logged


@contextlib.asynccontextmanager
async def pair(engine: Engine, **options: Any) -> AsyncIterator[Bridge]:
    port = await engine.start()
    try:
        async with bridge_to(port, **options) as bridge:
            yield bridge
    finally:
        engine.close()


async def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> None:
    """Waits until something holds; fails when it does not in time."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "did not become true in time"
        await asyncio.sleep(0.01)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs one test; a hang fails it."""
    asyncio.run(asyncio.wait_for(work, 30))
