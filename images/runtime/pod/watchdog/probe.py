"""Questions put to a process on loopback, each bounded as a whole: health, metrics, and one real generation. Blocking; stdlib only."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping

from pod.watchdog.metrics import Counters, counters

# Bounds a health answer. A healthy API process answers in milliseconds; one that tokenizes a giant prompt is late by a second or two.
HEALTH_TIMEOUT_S = 5.0
# Bounds a metrics answer, which is larger and made by the same event loop.
METRICS_TIMEOUT_S = 5.0
# Bounds what is read of an answer. Metrics of eight data-parallel engines are under 1 MB.
MAX_BODY_BYTES = 8 << 20


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """One generation. `error` is empty when `ok`; `status` is the HTTP status, None when none came; `seconds` is the whole wait."""

    ok: bool
    text: str
    seconds: float
    error: str
    status: int | None = None


def generate(port: int, path: str, model: str, prompt: str, max_tokens: int, timeout_s: float, key: str | None = None,
             host: str = "127.0.0.1") -> ProbeResult:
    """One real generation at temperature 0 over the raw completion route `path`, within `timeout_s` in all. Never raises."""
    body = json.dumps({"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    started = time.monotonic()
    try:
        with _answer(host, port, "POST", path, timeout_s, body, headers) as (status, answer):
            seconds = time.monotonic() - started
    except (OSError, http.client.HTTPException) as error:
        return ProbeResult(False, "", time.monotonic() - started, _named(error, timeout_s))
    if status != 200:
        return ProbeResult(False, "", seconds, f"HTTP {status}", status)
    text, tokens = _completion(answer)
    if text is None:
        return ProbeResult(False, "", seconds, "the answer holds no completion", status)
    if not text and not tokens:
        return ProbeResult(False, "", seconds, "the answer holds no token", status)
    return ProbeResult(True, text, seconds, "", status)


def health(port: int, path: str = "/health", timeout_s: float = HEALTH_TIMEOUT_S, status: int = 200, host: str = "127.0.0.1") -> bool:
    """Whether `path` answers `status` in time."""
    try:
        with _answer(host, port, "GET", path, timeout_s) as (found, _):
            return found == status
    except (OSError, http.client.HTTPException):
        return False


def metrics(port: int, timeout_s: float = METRICS_TIMEOUT_S, host: str = "127.0.0.1") -> Counters | None:
    """The engine's counters; None when nothing came in time; empty when the endpoint publishes none."""
    try:
        with _answer(host, port, "GET", "/metrics", timeout_s) as (status, body):
            return counters(body.decode("utf-8", "replace")) if status == 200 else Counters()
    except (OSError, http.client.HTTPException):
        return None


@contextlib.contextmanager
def _answer(host: str, port: int, method: str, path: str, timeout_s: float, body: bytes | None = None,
            headers: Mapping[str, str] | None = None) -> Iterator[tuple[int, bytes]]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        if connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    # A socket's own timeout starts again with each byte: an answer that trickles would hold the caller for ever.
    timer = threading.Timer(timeout_s, expire)
    timer.daemon = True
    timer.start()
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        content = response.read(MAX_BODY_BYTES)
        if expired.is_set():
            raise TimeoutError
        yield response.status, content
    except (OSError, http.client.HTTPException):
        if expired.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
        connection.close()


def _completion(answer: bytes) -> tuple[str | None, int]:
    try:
        document = json.loads(answer)
        text = document["choices"][0]["text"]
        tokens = (document.get("usage") or {}).get("completion_tokens", 0)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None, 0
    return (text, tokens if isinstance(tokens, int) else 0) if isinstance(text, str) else (None, 0)


def _named(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return f"{type(error).__name__}: {error}".rstrip().rstrip(":")
