"""The engine's side of the network: requests to it, its answers as they come, and a bounded pool of connections.

An answer is handed on by plain calls, so that no task has to be woken for a token. A request is sent a second time only when a
kept connection turns out to be dead before one byte of the answer came.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pod.bridge import errors
from pod.bridge.engine_answer import Answer
from pod.bridge.errors import ApiError
from pod.bridge.packing import Unpack, unpacker

httptools: Any = importlib.import_module("httptools")

# A loopback connection is taken at once or never; ten seconds serve an engine on another machine, too.
CONNECT_S = 10.0
# Shorter than the idle time of vLLM's server (uvicorn keeps a connection for 5 s), so that a dead one is rarely picked up.
KEEP_S = 4.0
MAX_KEPT = 64
# A kept connection that was dead already is noticed at once. One that dies later had taken the request, and the request itself
# may be what ended the engine: it is not sent again.
DEAD_S = 1.0
MAX_REQUESTS = 1024


class _DeadError(Exception):
    """A kept connection was closed before it answered."""


class _Connection(asyncio.Protocol):
    """One connection to an engine."""

    def __init__(self, pool: Upstream) -> None:
        self._pool = pool
        self._transport: Any = None
        self._head: asyncio.Future[Answer] | None = None
        self._answer: Answer | None = None
        self._is_paused = False
        self._is_complete = False
        self.is_used = False
        self.is_closed = False
        self.kept_since = 0.0

    def send(self, data: bytes, body: bytes) -> asyncio.Future[Answer]:
        """Sends a request; the future is done when the answer's head has come."""
        self._parser = httptools.HttpResponseParser(self)
        self._fields: dict[str, str] = {}
        self._body: list[bytes] = []
        self._is_complete = self._can_keep = False
        self._odd: ApiError | None = None
        self._unpack: Unpack | None = None
        self._answer = None
        self._head = asyncio.get_running_loop().create_future()
        self._got_bytes = False
        self._sent_at = asyncio.get_running_loop().time()
        self._transport.write(data)
        if body:
            self._transport.write(body)
        return self._head

    def belongs_to(self, answered: asyncio.Future[Answer]) -> bool:
        """Whether the request is still under way that `send` gave this future for."""
        return self._head is answered

    # --- parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._fields = {}
            return
        try:
            self._unpack = unpacker(self._fields.pop("content-encoding", ""))
        except ApiError as error:
            self._odd = error
            return
        self._answer = Answer(self, status, self._fields)
        if self._head is not None and not self._head.done():
            self._head.set_result(self._answer)

    def on_body(self, data: bytes) -> None:
        self._body.append(data)

    def on_message_complete(self) -> None:
        self._is_complete = self._answer is not None
        self._can_keep = self._parser.should_keep_alive()  # the parser knows it now, and has forgotten it afterwards

    # --- transport

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._head is None:  # bytes that nobody asked for
            self.abort()
            return
        self._got_bytes = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(ApiError(502, "The engine's answer is no HTTP."))
            return
        if self._body and self._answer is not None:
            pieces, self._body = self._body, []
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            self._answer.data(data if self._unpack is None else self._unpacked(data))
        if self._odd is not None:
            self._fail(self._odd)
        elif self._is_complete:
            self._complete()

    def _unpacked(self, data: bytes) -> bytes:
        assert self._unpack is not None
        try:
            return self._unpack(data)
        except ApiError as error:
            self._odd = error
            return b""

    def _complete(self) -> None:
        answer, self._answer, self._head = self._answer, None, None
        if answer is None or self.is_closed:
            return
        self.is_used = True
        keep = self._can_keep and not self._is_paused
        self._pool.done(self, keep=keep)
        answer.end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_closed:
            return
        is_sized = "content-length" in self._fields or "transfer-encoding" in self._fields if self._answer is not None else True
        if self._answer is not None and not self._is_complete and not is_sized:
            answer, self._answer = self._answer, None  # a body that ends with its connection is whole
            self._leave()
            answer.end(None)
            return
        self._fail(errors.cut_off() if self._got_any() else errors.unreachable())

    def _got_any(self) -> bool:
        return self._head is not None and self._got_bytes

    def _fail(self, error: ApiError) -> None:
        answer, head, got = self._answer, self._head, self._got_any()
        self._answer = None
        self.abort()
        if answer is not None:
            answer.end(error)
        elif head is not None and not head.done():
            was_dead = self.is_used and not got and asyncio.get_running_loop().time() - self._sent_at < DEAD_S
            head.set_exception(_DeadError() if was_dead else error)

    def _leave(self) -> None:
        self.is_closed = True
        self._pool.done(self, keep=False)

    def pause(self, is_paused: bool) -> None:
        """Stops or resumes reading."""
        if is_paused is self._is_paused or self.is_closed or self._transport.is_closing():
            return
        self._is_paused = is_paused
        if is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Closes at once."""
        if not self.is_closed:
            self._leave()
            self._transport.abort()


def _unconnected(error: Exception, authority: str) -> ApiError:
    """Why there is no connection: what time heals, and what only a person can."""
    if isinstance(error, ssl.SSLError):
        return ApiError(502, f"The engine at {authority} cannot be trusted: {getattr(error, 'verify_message', '') or error.reason}.", should_retry=False)
    if isinstance(error, socket.gaierror):
        return ApiError(502, f"The engine's host in {authority} is not known.", should_retry=True)
    return errors.UnconnectedError()


class Upstream:
    """One engine: at most `limit` requests at once, further ones are refused at once, since the engine has a queue of its own.

    `key` is what the engine asks for itself, if it asks.
    """

    def __init__(self, url: str, *, limit: int = MAX_REQUESTS, connect_s: float = CONNECT_S, key: str | None = None) -> None:
        parts = urlsplit(url)
        self.url, self.limit, self.connect_s, self.key = url, limit, connect_s, key
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._prefix = parts.path.rstrip("/")
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._authority = parts.netloc.rpartition("@")[2]
        self._kept: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self.waiting = 0

    @property
    def active(self) -> int:
        """Requests under way."""
        return len(self._busy) + self.waiting

    @property
    def open_connections(self) -> int:
        """Connections, used or kept."""
        return len(self._busy) + len(self._kept)

    async def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *,
                   extra: bool = False) -> Answer:  # fmt: skip
        """The answer to a request, as soon as its head has come. Raises ApiError: saturated, unreachable, or cut off.

        `extra` is for probes, which must get through a full pool.
        """
        if self.active >= self.limit and not extra:
            raise errors.saturated()
        head = self._request_head(method, path, body, headers or {})
        while True:
            connection = await self._connection()
            try:
                return await self._asked(connection, head, body)
            except _DeadError:
                continue

    async def fetch(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None, *,
                    seconds: float, extra: bool = False) -> tuple[int, bytes]:  # fmt: skip
        """Status and body of an answer. Raises ApiError, 504 where it takes longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                answer = await self.send(method, path, body, headers, extra=extra)
                return answer.status, await answer.read()
        except TimeoutError:
            raise errors.silent(seconds) from None

    async def _asked(self, connection: _Connection, head: bytes, body: bytes) -> Answer:
        self._busy.add(connection)
        answered = connection.send(head, body)
        try:
            return await answered
        except asyncio.CancelledError:
            # The whole answer may have come meanwhile, and the connection may be somebody else's already.
            if connection.belongs_to(answered):
                connection.abort()
            raise

    async def _connection(self) -> _Connection:
        now = asyncio.get_running_loop().time()
        while self._kept:
            kept = self._kept.pop()
            if not kept.is_closed and now - kept.kept_since < KEEP_S:
                return kept
            kept.abort()
        self.waiting += 1
        try:
            async with asyncio.timeout(self.connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self), self._host, self._port, ssl=self._ssl)  # fmt: skip
        except (OSError, TimeoutError) as error:
            raise _unconnected(error, self._authority) from None
        finally:
            self.waiting -= 1
        return connection

    def _request_head(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        sent = {"host": self._authority, "accept-encoding": "identity", **headers}
        if body or method == "POST":
            sent.setdefault("content-type", "application/json")
            sent["content-length"] = str(len(body))
        if self.key:
            sent["authorization"] = f"Bearer {self.key}"
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        return "\r\n".join(line.replace("\r", " ").replace("\n", " ") for line in lines).encode("latin-1", "replace") + b"\r\n\r\n"

    def done(self, connection: _Connection, *, keep: bool) -> None:
        """A connection has nothing to do any more."""
        self._busy.discard(connection)
        if connection in self._kept:
            self._kept.remove(connection)
        if not keep or len(self._kept) >= MAX_KEPT:
            connection.abort()
            return
        connection.kept_since = asyncio.get_running_loop().time()
        self._kept.append(connection)

    def close(self) -> None:
        """Closes every connection."""
        for connection in [*self._kept, *self._busy]:
            connection.abort()
