"""Probes against real sockets that answer well, badly, slowly or never."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from pod.watchdog import probe
from pod.watchdog.metrics import Counters

GOOD = json.dumps({"choices": [{"text": "four"}], "usage": {"completion_tokens": 1}}).encode()


def answer(body: bytes, status: int = 200) -> list[bytes]:
    return [b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body)), body]


@contextlib.contextmanager
def server(pieces: list[bytes], pause_s: float = 0.0, seen: list[bytes] | None = None) -> Iterator[int]:
    """One connection is answered with `pieces`, a pause before each."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            peer, _ = listener.accept()
            with peer:
                data = peer.recv(65536)
                while b"Content-Length" in data and data.endswith(b"\r\n\r\n"):
                    data += peer.recv(65536)
                (seen if seen is not None else []).append(data)
                for piece in pieces:
                    if stop.wait(pause_s):
                        return
                    peer.sendall(piece)
                if not pieces:
                    stop.wait(5.0)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        listener.close()
        thread.join(2.0)


def ask(port: int, timeout_s: float = 2.0, key: str | None = None) -> probe.ProbeResult:
    return probe.generate(port, "/v1/completions", "tiny", "2+2=", 24, timeout_s, key)


def test_a_generation_is_asked_as_clients_ask() -> None:
    seen: list[bytes] = []
    with server(answer(GOOD), seen=seen) as port:
        result = ask(port, key="s3cret")
    assert (result.ok, result.text, result.error, result.status) == (True, "four", "", 200)
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/completions HTTP/1.1")
    assert b"Authorization: Bearer s3cret" in head
    assert json.loads(body) == {"model": "tiny", "prompt": "2+2=", "max_tokens": 24, "temperature": 0}


@pytest.mark.parametrize(("pieces", "error", "status"), [
    (answer(b"{}", 500), "HTTP 500", 500),
    (answer(b'{"error": 1}', 401), "HTTP 401", 401),
    (answer(b"<html>"), "the answer holds no completion", 200),
    (answer(b'{"choices": []}'), "the answer holds no completion", 200),
    (answer(b'[1]'), "the answer holds no completion", 200),
    (answer(b'{"choices": [{"text": ""}]}'), "the answer holds no token", 200),
    ([b"garbage\r\n\r\n"], "BadStatusLine: garbage", None),
    ([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"], "the answer holds no completion", 200),
])  # fmt: skip
def test_bad_answers_are_named(pieces: list[bytes], error: str, status: int | None) -> None:
    with server(pieces) as port:
        result = ask(port)
    assert (result.ok, result.error, result.status) == (False, error, status)


def test_an_answer_that_never_comes_ends_in_time() -> None:
    with server([]) as port:
        started = time.monotonic()
        result = ask(port, 0.3)
    assert (result.ok, result.error) == (False, "no answer within 0.3 s")
    assert time.monotonic() - started < 1.5


def test_an_answer_that_trickles_ends_in_time() -> None:
    pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", *([b" "] * 1000)]
    with server(pieces, pause_s=0.05) as port:
        started = time.monotonic()
        result = ask(port, 0.4)
    assert (result.ok, result.error) == (False, "no answer within 0.4 s")
    assert time.monotonic() - started < 1.5


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def test_nobody_listens() -> None:
    assert ask(free_port()).error == "connection refused"
    assert probe.health(free_port()) is False
    assert probe.metrics(free_port()) is None


def test_health_is_the_status_that_the_manifest_names() -> None:
    for status, wanted, healthy in ((200, 200, True), (503, 200, False), (204, 204, True)):
        with server(answer(b"", status)) as port:
            assert probe.health(port, "/health", 2.0, wanted) is healthy


def test_metrics_of_an_endpoint_without_any_are_empty_and_of_a_silent_one_none() -> None:
    with server(answer(b'vllm:num_requests_running{engine="0"} 2.0\n')) as port:
        found = probe.metrics(port)
        assert found is not None
        assert found.running == 2
    with server(answer(b"no", 404)) as port:
        assert probe.metrics(port) == Counters()
    with server([]) as port:
        assert probe.metrics(port, 0.2) is None
