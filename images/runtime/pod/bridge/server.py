"""The client's side of the network: HTTP/1.1 on plain asyncio protocols, parsed by httptools.

A `Server` hands each whole request to a handler as an `exchange.Exchange`, which is answered at once or later, in one piece
or as a stream. Everything on the way of a token is a plain call: no task, no queue and no timer for a piece of an answer.
"""

from __future__ import annotations

import asyncio
import collections
import importlib
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pod.bridge import errors
from pod.bridge.errors import ApiError
from pod.bridge.exchange import Exchange, Handler, Request
from pod.bridge.stats import ABORTED

httptools: Any = importlib.import_module("httptools")

MAX_HEAD = 64 << 10
# Requests that a client may send ahead on one connection before it is no longer read from.
MAX_AHEAD = 8
# Longer than the idle times of common clients' pools, so that they close first and never send into a closing connection.
IDLE_S = 90.0
# How long a client that has just connected may take to send its request while the server drains.
GREET_S = 1.0
# How long a client that was refused may go on sending what nobody reads.
LINGER_S = 5.0
# Answers that wait for a slow client; the engine is no longer read from beyond it.
HIGH_WATER = 256 << 10
# Bodies in memory at once, as a multiple of the largest one: more than that waits for nobody, it is refused.
BODIES_AT_ONCE = 4
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus} | {529: b"Overloaded"}


class _Connection(asyncio.Protocol):
    """One client's connection: requests in order, answers in order."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._transport: Any = None
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: collections.deque[tuple[Request, bool, bool]] = collections.deque()
        self._exchange: Exchange | None = None
        self._keep = True
        self.is_new = True
        self._is_paused = False
        self._is_read_paused = False
        self._is_discarding = False
        self._request: Request | None = None
        self._since = server.loop.time()
        self._is_begun = False
        self._begin()

    # --- parser

    def _begin(self) -> None:
        self._target = b""
        self._fields: dict[str, str] = {}
        self._size = self._held = self._limit = 0
        self._pieces: list[bytes] = []

    def on_message_begin(self) -> None:
        self.is_new = False
        self._is_begun = True
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._grown(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._grown(len(name) + len(value))
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
        # A list may come in several lines; of what is no list, the last line counts.
        self._fields[key] = f"{self._fields[key]},{text}" if key == "anthropic-beta" and key in self._fields else text

    def _grown(self, size: int) -> None:
        self._size += size
        if self._size > MAX_HEAD:
            raise ValueError("head too large")

    def on_headers_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        request = self._request = Request(self._parser.get_method().decode("latin-1"), self._target, self._fields)
        length = self._fields.get("content-length", "0")
        self._limit = self._server.handler.body_limit(request)
        error = self._server.handler.refusal(request)
        if error is None and length.isdecimal() and int(length) > self._limit:
            error = errors.too_large(self._limit)
        if error is not None:
            self._refuse(error)
        elif self._fields.get("expect", "").lower() == "100-continue" and self._exchange is None:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        if self._is_discarding:
            return
        self._held += len(data)
        self._server.held += len(data)
        self._pieces.append(data)
        if self._held > self._limit:
            self._refuse(errors.too_large(self._limit))
        elif self._server.held > self._server.max_body * BODIES_AT_ONCE:
            self._refuse(errors.saturated())

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self._is_begun = False
        request, self._request = self._request, None
        if self._is_discarding or request is None:
            self._after_refusal()
            return
        request.body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._release()
        self._waiting.append((request, self._parser.should_keep_alive(), self._parser.get_http_version() == "1.1"))

    def _release(self) -> None:
        self._server.held -= self._held
        self._held = 0
        self._pieces = []

    def _refuse(self, error: ApiError) -> None:
        """Answers before the body has come; what still comes is thrown away for a while, so that the answer arrives."""
        request = self._request
        assert request is not None
        self._release()
        self._server.refused[id(request)] = error
        if not self._held and "transfer-encoding" not in self._fields and self._fields.get("content-length", "0") == "0":
            return  # nothing more will come, and the connection can be used again
        self._is_discarding = True
        self._keep = False
        self._waiting.append((request, False, True))

    def _after_refusal(self) -> None:
        if self._exchange is None and not self._waiting:
            self.close()

    # --- transport

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._since = self._server.loop.time()
        if not self._keep:
            if self._is_discarding:
                self._feed(data)
            return
        self._feed(data)
        self._next()
        if len(self._waiting) >= MAX_AHEAD and not self._is_read_paused:
            self._is_read_paused = True
            self._transport.pause_reading()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if "upgrade" in self._fields:
                self._feed(self._without_upgrade() + data[upgrade.args[0]:])
            else:
                self._misunderstood()  # CONNECT
        except httptools.HttpParserError:
            self._misunderstood()

    def _misunderstood(self) -> None:
        if not self._keep:
            self._after_refusal()
            return
        self._keep = False
        self._release()
        is_long = self._size > MAX_HEAD
        request = self._request = Request("?", b"", {})
        long, other = ApiError(431, "The request's head is too large."), ApiError(400, "The request is no HTTP/1.1 that this server reads.")
        self._server.refused[id(request)] = long if is_long else other
        self._waiting.append((request, False, True))

    def _without_upgrade(self) -> bytes:
        """The head once more, for a new parser: Java's client asks for HTTP/2 on the way, and takes it well that it gets none."""
        lines = [b"%b %b HTTP/1.1" % (self._parser.get_method(), self._target)]
        kept = {name: value for name, value in self._fields.items() if name not in ("upgrade", "connection", "http2-settings")}
        lines += [f"{name}: {value}".encode("latin-1") for name, value in kept.items()]
        self._parser = httptools.HttpRequestParser(self)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def eof_received(self) -> bool:
        """A client that closed its side is gone: nothing tells it from one that only half closed."""
        self._gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._release()
        self._gone()
        self._server.quiet()

    def pause_writing(self) -> None:
        self._is_paused = True
        if (exchange := self._exchange) is not None:
            exchange.is_paused = True
            if exchange.on_flow is not None:
                exchange.on_flow(False)

    def resume_writing(self) -> None:
        self._is_paused = False
        if (exchange := self._exchange) is not None:
            exchange.is_paused = False
            if exchange.on_flow is not None:
                exchange.on_flow(True)

    # --- exchanges

    def _next(self) -> None:
        while self._waiting and self._exchange is None and not self._transport.is_closing():
            request, keep, is_11 = self._waiting.popleft()
            self._keep = self._keep and keep and not self._server.is_draining
            exchange = self._exchange = Exchange(self, request, chunked=is_11)
            exchange.is_paused = self._is_paused
            if not is_11:
                self._keep = False
            error = self._server.refused.pop(id(request), None)
            if error is not None:
                exchange.refuse(error)
            else:
                self._server.handler.handle(exchange)

    def finished(self, exchange: Exchange) -> None:
        """The answer of an exchange is complete."""
        self._server.handler.answered(exchange.request, exchange.status)
        self._exchange = None
        self._since = self._server.loop.time()
        if not self._keep or self._server.is_draining:
            if not self._is_discarding or self._request is None:
                self._transport.close()
            self._server.quiet()
            return
        if self._is_read_paused and len(self._waiting) < MAX_AHEAD:
            self._is_read_paused = False
            self._transport.resume_reading()
        if self._waiting:
            self._server.loop.call_soon(self._next)

    def _gone(self) -> None:
        exchange, self._exchange = self._exchange, None
        for request, _, _ in self._waiting:
            self._server.refused.pop(id(request), None)
        self._waiting.clear()
        if exchange is None or exchange.is_over:
            return
        exchange.is_over = True
        gone, exchange.on_gone, exchange.on_flow = exchange.on_gone, None, None
        if gone is not None:
            gone()
        self._server.handler.answered(exchange.request, ABORTED)
        if not self._transport.is_closing():
            self._transport.abort()

    def head(self, exchange: Exchange, status: int, headers: Mapping[str, str]) -> bytes:
        """The head of an answer."""
        keep = self._keep and not self._server.is_draining
        lines = [b"HTTP/1.1 %d %b" % (status, _REASONS.get(status, b"Unknown"))]
        sent = {"request-id": exchange.request.request_id, **self._server.handler.headers_for(exchange.request), **headers}
        if not keep:
            sent["connection"] = "close"
        lines += [f"{name}: {value}".replace("\r", " ").replace("\n", " ").encode("latin-1", "replace") for name, value in sent.items()]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def write(self, data: bytes) -> None:
        """Bytes to the client; they go out at once or wait in the transport."""
        self._transport.write(data)

    def refuse(self, error: ApiError) -> None:
        """Answers the request under way with an error, if nothing of an answer has gone out."""
        exchange = self._exchange
        if exchange is not None and not exchange.status:
            gone, exchange.on_gone = exchange.on_gone, None
            exchange.refuse(error)
            if gone is not None:
                gone()

    def close(self) -> None:
        """Ends the connection; an answer under way is broken off."""
        if self._exchange is not None:
            self._transport.abort()
        else:
            self._transport.close()

    def sweep(self, now: float) -> None:
        """Ends a connection on which nothing happens."""
        if self._exchange is None and now - self._since > (LINGER_S if self._is_discarding else IDLE_S):
            self._transport.abort()

    @property
    def is_busy(self) -> bool:
        """Whether an answer is under way."""
        return self._exchange is not None

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way, not even half of one."""
        return self._exchange is None and not self._waiting and not self._is_begun


class Server:
    """Listens, and knows its connections. `held` is the size of the bodies that are still coming in."""

    def __init__(self, handler: Handler, max_body: int) -> None:
        self.handler, self.max_body = handler, max_body
        self.loop = asyncio.get_running_loop()
        self.connections: set[_Connection] = set()
        self.refused: dict[int, ApiError] = {}
        self.held = 0
        self.is_draining = False
        self._listener: asyncio.Server | None = None
        self._is_quiet = asyncio.Event()
        self._patience: asyncio.Timeout | None = None
        self._timer = self.loop.call_later(LINGER_S, self._sweep)

    async def listen(self, host: str, port: int, sock: socket.socket | None = None) -> tuple[str, int]:
        """Opens the door, or takes over one that is open, and gives its address."""
        where: dict[str, Any] = {"sock": sock} if sock else {"host": host, "port": port, "reuse_address": True}
        self._listener = await self.loop.create_server(lambda: _Connection(self), backlog=4096, **where)
        address = self._listener.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def drain(self, seconds: float) -> bool:
        """Takes no new connection and lets answers finish; False where some had to be broken off."""
        self.is_draining = True
        if self._listener is not None:
            self._listener.close()
        self._close_idle(with_new=False)
        self.loop.call_later(GREET_S, self._close_idle)
        try:
            async with asyncio.timeout(seconds) as self._patience:
                await self._is_quiet.wait()
        except TimeoutError:
            return False
        finally:
            self._timer.cancel()
        return True

    def hurry(self, seconds: float) -> None:
        """A server that drains has less time from now."""
        if self._patience is not None:
            self._patience.reschedule(min(self._patience.when() or float("inf"), self.loop.time() + seconds))

    def _close_idle(self, *, with_new: bool = True) -> None:
        for connection in [c for c in self.connections if c.is_idle and (with_new or not c.is_new)]:
            connection.close()
        self.quiet()

    def refuse_all(self, error: ApiError) -> None:
        """Answers every request of which nothing was answered yet with an error."""
        for connection in list(self.connections):
            connection.refuse(error)

    async def close(self) -> None:
        """Breaks everything off."""
        self._timer.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.close()
        await asyncio.sleep(0)

    @property
    def requests(self) -> int:
        """Requests under way."""
        return sum(connection.is_busy for connection in self.connections)

    def quiet(self) -> None:
        """Looks whether a draining server is done."""
        if self.is_draining and not self.connections:
            self._is_quiet.set()

    def _sweep(self) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            connection.sweep(now)
        self._timer = self.loop.call_later(LINGER_S, self._sweep)
