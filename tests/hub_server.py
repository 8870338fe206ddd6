"""A Hub over real HTTP for tests: what `huggingface_hub` and the pod ask of one, with commits, rights and faults.

In a test: `with hub_server() as hub: hub.create("me/pods"); hub.commit("me/pods", {"a.txt": b"1"}); ... HfApi(endpoint=hub.url)`.
For other processes: `env=hub.env()`. By hand: `python -m tests.hub_server --port 8090 --repo me/pods`, then set HF_ENDPOINT.

Small files answer with a redirect to `/api/resolve-cache/...` and large ones with one to another host, as the Hub does. Uploads of
large files speak LFS only: clients need HF_HUB_DISABLE_XET=1, which `env` sets.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub_api import Call, Reply, Route, answered, json_reply
from tests.hub_repos import Blob, Commit, Repo, Right, Store, wants_lfs

READER, WRITER = "hf_reader", "hf_writer"
Kind = Literal["down", "slow", "status", "half", "old", "html", "silent"]


@dataclasses.dataclass
class Fault:
    """What goes wrong with requests whose `METHOD path` matches `on`, `times` times (None: until cleared).

    down: the connection is closed without a word. silent: it stays open and nothing comes. slow: the answer waits `seconds`.
    status: `status` instead of an answer, with `retry_after`. half: half the announced body. old: files of `back` commits ago.
    html: 200 and somebody's login page.
    """

    kind: Kind
    on: str = "."
    times: int | None = None
    seconds: float = 1.0
    status: int = 500
    retry_after: str | None = None
    back: int = 1


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request that came in, and the status that it got (0: none)."""

    method: str
    path: str
    headers: Mapping[str, str]
    status: int
    at: float


class Hub:
    """One Hub. Repositories and accounts are in `store`; `seen` holds every request; `faults` is what goes wrong now."""

    def __init__(self, tokens: Mapping[str, Right] | None = None) -> None:
        self.store = Store(tokens if tokens is not None else {READER: "read", WRITER: "write"})
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.more: list[Route] = []
        self.host, self.port = "127.0.0.1", 0

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def env(self, token: str | None = WRITER) -> dict[str, str]:
        """Variables that make another process use this Hub."""
        return {"HF_ENDPOINT": self.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "0",
                **({"HF_TOKEN": token} if token else {})}  # fmt: skip

    def create(self, name: str, *, kind: str = "model", private: bool = False, gated: bool = False) -> Repo:
        return self.store.create(name, kind=kind, private=private, gated=gated)

    def commit(self, name: str, changes: Mapping[str, bytes | None], title: str = "change", *, kind: str = "model") -> Commit:
        """Commit past the API, as another publisher would."""
        blobs = {path: None if c is None else Blob(c, wants_lfs(path, len(c))) for path, c in changes.items()}
        return self.store.commit(self.store.repo(name, kind), blobs, title)

    def read(self, name: str, path: str, *, kind: str = "model") -> bytes:
        """A file at the head; KeyError where there is none."""
        return self.store.repo(name, kind).head.files[path].content

    def fail(self, kind: Kind, on: str = ".", **more: Any) -> Fault:
        """Let something go wrong from now on; `clear` ends it."""
        fault = Fault(kind, on, **more)
        self.faults.append(fault)
        return fault

    def clear(self) -> None:
        self.faults.clear()

    def asked(self, pattern: str) -> list[Seen]:
        """Requests so far whose `METHOD path` matches."""
        return [s for s in self.seen if re.search(pattern, f"{s.method} {s.path}")]

    def fault_of(self, method: str, path: str) -> Fault | None:
        with self.store.lock:
            for fault in self.faults:
                if fault.times != 0 and re.search(fault.on, f"{method} {path}"):
                    fault.times = None if fault.times is None else fault.times - 1
                    return fault
        return None

    def driven(self, method: str, body: bytes) -> Reply:
        """`/-/faults`, for drivers in other processes: POST adds one fault, DELETE ends all."""
        if method == "DELETE":
            self.clear()
        else:
            self.faults.append(Fault(**json.loads(body)))
        return json_reply({"faults": len(self.faults)})


LOGIN_PAGE = b"<!doctype html><html><head><title>Sign in to the network</title></head><body><form>...</form></body></html>\n"


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def handle_any(self) -> None:
            split = urlsplit(self.path)
            path, length = unquote(split.path), int(self.headers.get("Content-Length") or 0)
            body = self._chunked() if "chunked" in self.headers.get("Transfer-Encoding", "") else self.rfile.read(length)
            if path == "/-/faults":
                self._send(hub.driven(self.command, body), half=False)
                return
            fault, headers = hub.fault_of(self.command, path), {k.lower(): v for k, v in self.headers.items()}
            back = fault.back if fault and fault.kind == "old" else 0
            reply = self._spoilt(Call(self.command, path, parse_qs(split.query), headers, body, hub.url, back), fault)
            hub.seen.append(Seen(self.command, path, headers, reply.status if reply else 0, time.time()))
            if reply is None:
                self.close_connection = True
                return
            self._send(reply, half=fault is not None and fault.kind == "half")

        def _spoilt(self, call: Call, fault: Fault | None) -> Reply | None:
            """The answer, or what a fault makes of it."""
            if fault and fault.kind in ("slow", "silent"):
                time.sleep(fault.seconds)
            if fault and fault.kind in ("down", "silent"):
                return None
            if fault and fault.kind == "status":
                waits = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
                return json_reply({"error": f"status {fault.status}"}, fault.status, **waits)
            if fault and fault.kind == "html":
                return Reply(200, LOGIN_PAGE, {"Content-Type": "text/html"})
            return answered(hub.store, call, hub.more)

        def _send(self, reply: Reply, half: bool) -> None:
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                is_cut = half and len(reply.body) > 1
                self.wfile.write(reply.body[: len(reply.body) // 2] if is_cut else reply.body)
                self.close_connection |= is_cut

        def _chunked(self) -> bytes:
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no failure of the server; anything else is shown."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def hub_server(hub: Hub | None = None, port: int = 0, host: str = "127.0.0.1") -> Iterator[Hub]:
    """A Hub that listens on loopback (or `host`) while the block runs. Entering it again with the same Hub and port is a restart."""
    hub = hub or Hub()
    hub.host = host
    listener = _Listener((host, port), _handler(hub))
    hub.port = listener.server_address[1]
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        listener.shutdown()
        listener.server_close()


def main() -> None:
    """Serve until interrupted; prints the address first."""
    parser = argparse.ArgumentParser(prog="python -m tests.hub_server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--repo", action="append", default=[], help="model repository to create; repeat for several")
    options = parser.parse_args()
    with hub_server(port=options.port) as hub:
        for name in options.repo:
            hub.create(name)
        print(json.dumps({"url": hub.url, "env": hub.env()}), flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
