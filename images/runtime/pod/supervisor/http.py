"""HTTP on loopback: status, journal, wishes. Small on purpose: the parser takes what our own bridge and a person's curl send."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

# Bounds one question, so that a client that connects and says nothing does not stay for ever.
REQUEST_S = 10.0
# A wish is a name; nothing that is asked here is longer.
MAX_BODY = 64 * 1024

Handler = Callable[[str, str, dict[str, str], bytes], "tuple[int, Any]"]
_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 409: "Conflict", 413: "Too Large",
            500: "Internal Server Error", 503: "Unavailable"}  # fmt: skip


async def serve(port: int, handler: Handler, host: str = "127.0.0.1") -> asyncio.Server:
    """Listen, and answer each request with what `handler(method, path, query, body)` gives: a status and a JSON value.

    Raises OSError when the port is taken.
    """
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
            writer.write(await asyncio.wait_for(_answered(reader, handler), REQUEST_S))
            await asyncio.wait_for(writer.drain(), REQUEST_S)
        writer.close()

    return await asyncio.start_server(connected, host, port, limit=MAX_BODY)


async def _answered(reader: asyncio.StreamReader, handler: Handler) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, *_ = head[0].split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= MAX_BODY:
        return _response(413, {"error": "too large"})
    body = await reader.readexactly(length)
    # A page in a browser on this machine could otherwise make wishes: it cannot leave these headers out.
    if "origin" in headers or headers.get("host", "").rpartition(":")[0] not in ("127.0.0.1", "localhost", "[::1]"):
        return _response(400, {"error": "only programs on this machine may ask here"})
    url = urlsplit(target)
    try:
        status, data = handler(method, url.path, {key: values[-1] for key, values in parse_qs(url.query).items()}, body)
    except Exception as error:
        status, data = 500, {"error": f"{type(error).__name__}: {error}"}
    return _response(status, data)


def _response(status: int, data: Any) -> bytes:
    body = json.dumps(data, ensure_ascii=False).encode() + b"\n"
    head = f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body
