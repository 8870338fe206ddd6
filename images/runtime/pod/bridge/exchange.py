"""One request and its answer, as the routes see them; the connection below them is the server's affair."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from pod.bridge.codec import dumps
from pod.bridge.errors import ApiError
from pod.bridge.stats import Record


class Request:
    """A request; names of headers in lower case, `target` with its query, `body` whole, `record` for the statistics."""

    __slots__ = ("body", "headers", "method", "path", "query", "record", "request_id", "target")

    def __init__(self, method: str, target: bytes, headers: Mapping[str, str]) -> None:
        text = target.decode("latin-1")
        if "://" in text[:10]:  # the absolute form, which clients send to what they take for a proxy
            text = "/" + text.partition("://")[2].partition("/")[2]
        if text.startswith("//"):  # a base address that ends with a slash
            text = "/" + text.lstrip("/")
        if text.startswith("/v1/v1/"):  # one that ends with /v1, as other clients want it
            text = text[3:]
        path, _, query = text.partition("?")
        self.method = method
        self.target = text
        self.path = unquote(path)
        self.query = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
        self.headers = headers
        self.body = b""
        self.record = Record(method)
        self.request_id = "req_" + secrets.token_hex(12)


class Wire(Protocol):
    """What an exchange needs of its connection."""

    def head(self, exchange: Exchange, status: int, headers: Mapping[str, str]) -> bytes: ...
    def write(self, data: bytes) -> None: ...
    def finished(self, exchange: Exchange) -> None: ...
    def close(self) -> None: ...


class Handler(Protocol):
    """What a server asks: `refusal` and `body_limit` (in bytes) once the head has come, `handle` once the body has."""

    def refusal(self, request: Request) -> ApiError | None: ...
    def body_limit(self, request: Request) -> int: ...
    def handle(self, exchange: Exchange) -> None: ...
    def answered(self, request: Request, status: int) -> None: ...
    def headers_for(self, request: Request) -> Mapping[str, str]: ...


class Exchange:
    """A request and its answer. `on_gone` is called when the client leaves before the answer's end; `on_flow` with False when
    it reads too slowly, with True when it has caught up."""

    __slots__ = ("_chunked", "_connection", "is_over", "is_paused", "on_flow", "on_gone", "request", "status")

    def __init__(self, connection: Wire, request: Request, chunked: bool) -> None:
        self._connection = connection
        self._chunked = chunked
        self.request = request
        self.status = 0
        self.is_over = False
        self.is_paused = False
        self.on_gone: Callable[[], None] | None = None
        self.on_flow: Callable[[bool], None] | None = None

    def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer."""
        if self.is_over:
            return
        sent = {"content-length": str(len(body)), **({"content-type": "application/json"} if body else {}), **(headers or {})}
        head = self._head(status, sent)
        self._connection.write(head if self.request.method == "HEAD" else head + body)
        self.finish()

    def answer_json(self, status: int, data: Any) -> None:
        """A whole answer in JSON."""
        self.answer(status, dumps(data))

    def refuse(self, error: ApiError) -> None:
        """An error as the whole answer."""
        self.request.record.error, self.request.record.error_kind = error.message, error.kind
        self.answer(error.status, error.body(self.request.request_id), error.headers())

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The head of a streamed answer."""
        if not self.is_over:
            self._connection.write(self._head(status, {**headers, "transfer-encoding": "chunked"} if self._chunked else headers))

    def write(self, data: bytes) -> None:
        """A piece of a streamed answer."""
        if data and not self.is_over:
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        """The end of a streamed answer."""
        if not self.is_over:
            if self._chunked:
                self._connection.write(b"0\r\n\r\n")
            self.finish()

    def abort(self) -> None:
        """Breaks off a streamed answer so that the client can tell."""
        if not self.is_over:
            self._connection.close()

    def finish(self) -> None:
        """Hands the connection to the next request."""
        self.is_over = True
        self.on_gone = self.on_flow = None
        self._connection.finished(self)

    def _head(self, status: int, headers: Mapping[str, str]) -> bytes:
        self.status = status
        return self._connection.head(self, status, headers)
