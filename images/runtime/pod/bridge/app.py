"""The routes of the bridge, its lock on the door, and its life from start to drain."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pod.bridge import console, engine_state
from pod.bridge.engine_state import StateFile
from pod.bridge.engines import ASK_S, Engines
from pod.bridge.errors import ApiError
from pod.bridge.exchange import Exchange, Request
from pod.bridge.gate import Gate
from pod.bridge.live import Sweep
from pod.bridge.messages import Messages
from pod.bridge.pod_relay import PAGES, PodRelay
from pod.bridge.relays import Relays, forwarded_headers
from pod.bridge.server import Server
from pod.bridge.settings import Settings, SettingsError, is_loopback
from pod.bridge.stats import Stats
from pod.bridge.upstream import MAX_REQUESTS, Upstream

Route = Callable[[Exchange], Awaitable[None] | None]
RELAYED = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/tokenize")
# Asked by load balancers and by Claude Code before it has sent a key.
OPEN = frozenset({
    *((method, path) for method in ("HEAD", "GET") for path in ("/", "/health", "/ready", "/console", "/api/hello")),
    ("POST", "/api/event_logging/*"),
})  # fmt: skip
# Routes that are named by their beginning: what follows is a name, or none of our business.
_BY_BEGINNING = ("/v1/models/", "/api/event_logging/")
# Strangers may ask these routes, which need no body or a small one.
MAX_OPEN_BODY = 1 << 20
# What a pod's host grants a container between SIGTERM and SIGKILL is seldom more than 30 s.
DRAIN_S = 25.0
STATUS_PORT_ENV, DEFAULT_STATUS_PORT = "PODWRIGHT_STATUS_PORT", "8079"
_EXPOSED = "request-id, retry-after, x-should-retry"


def keys_of(settings: Settings, environ: Mapping[str, str]) -> dict[bytes, str]:
    """Digests of the keys and the names of the clients that hold them. Raises SettingsError for one that is not set."""
    keys: dict[bytes, str] = {}
    for name, env in settings.keys:
        value = environ.get(env, "").strip()
        if not value:
            raise SettingsError(f"the variable {env} is empty or not set, so nobody could show its key; set it, "
                                "or leave the key out to listen on this machine only")  # fmt: skip
        keys[hashlib.sha256(value.encode()).digest()] = name
    return keys


class App:
    """One bridge. `write` takes the lines of the trace, `log` what a developer must see; `limit` is of requests at once."""

    def __init__(self, settings: Settings, *, environ: Mapping[str, str] = os.environ, write: Callable[[str], None] | None = None,
                 log: Callable[[str], None] | None = None, limit: int = MAX_REQUESTS) -> None:  # fmt: skip
        self._environ = environ
        self.log = log or _to_stderr
        self.stats = Stats(write or _to_stdout)
        self.engines = Engines(settings, limit=limit, key=environ.get("VLLM_API_KEY") or None)
        self.gate = Gate(self.engines, self._state_file(), _supervisor(environ), hold_s=settings.hold_s, limit=limit)
        self._pod = PodRelay(self.gate.supervisor, self.gate.file is not None)
        self.sweep = Sweep(settings.ping_s, settings.silence_s)
        self.server = Server(self, settings.max_body)
        self._tasks: set[asyncio.Task[None]] = set()
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Works by these settings from now on; open streams go on. Raises SettingsError, and then nothing has changed."""
        keys = keys_of(settings, self._environ)
        self.settings, self._keys = settings, keys
        self.stats.secrets = tuple(self._environ.get(env, "").strip() for _, env in settings.keys)
        self.engines.apply(settings)
        self.gate.hold_s = settings.hold_s
        self.sweep.set_times(settings.ping_s, settings.silence_s)
        self.server.max_body = settings.max_body
        messages = Messages(settings, self.engines, self.gate, self.sweep, self.log, self._forwarded)
        relays = Relays(settings, self.engines, self.gate, self.sweep, self.log, self._forwarded)
        self._routes: dict[tuple[str, str], Route] = {
            **{(method, path): self._here for method in ("HEAD", "GET") for path in ("/", "/api/hello")},
            ("POST", "/api/event_logging/*"): self._unread,
            ("GET", "/health"): self._health, ("HEAD", "/health"): self._health,
            ("GET", "/ready"): self._ready, ("HEAD", "/ready"): self._ready,
            ("GET", "/console"): self._console, ("GET", "/console/data"): self._console_data,
            ("GET", "/metrics"): self._metrics, ("GET", "/v1/models"): self._models, ("GET", "/v1/models/*"): self._model,
            **{("POST", path): relays.relay for path in RELAYED}, **{("GET", f"/pod/{page}"): self._pod.relay for page in PAGES},
        }  # fmt: skip
        passes = settings.mode == "keepalive"
        self._routes["POST", "/v1/messages"] = relays.relay if passes else messages.messages
        self._routes["POST", "/v1/messages/count_tokens"] = relays.relay if passes else messages.count_tokens

    def _state_file(self) -> StateFile | None:
        path = self._environ.get(engine_state.FILE_ENV)
        return StateFile(Path(path), self.engines.follow, self.log) if path else None

    async def start(self, sock: socket.socket | None = None) -> tuple[str, int]:
        """Listens, and gives the address."""
        address = await self.server.listen(self.settings.bind_host, self.settings.port, sock)
        self._spawn(self.engines.known())
        return address

    async def stop(self, seconds: float = DRAIN_S) -> None:
        """Lets answers finish for a while, then tells the clients of the others why they end."""
        if not await self.server.drain(seconds):
            restarting = ApiError(503, "This server is restarting.", retry_after=1, should_retry=True)
            self.sweep.fail_all(restarting)
            self.server.refuse_all(restarting)
            await asyncio.sleep(0.05)
        await self.server.close()
        for task in list(self._tasks):
            task.cancel()
        self.engines.close()

    # --- what the server asks

    def refusal(self, request: Request) -> ApiError | None:
        """Why a request is not even read: no route, no key, a foreign page."""
        if request.method == "OPTIONS":
            return None
        route = _route_of(request)
        request.record.route = route[1] if route in self._routes else "other"
        if error := self._foreign(request):
            return error
        if route not in OPEN and (error := self._locked(request)):
            return error
        if route in self._routes:
            return None
        if any(path == route[1] for _, path in self._routes):
            return ApiError(405, f"{request.method} is not what {request.path[:200]} is for.")
        return ApiError(404, f"There is no {request.path[:200]} here.")

    def body_limit(self, request: Request) -> int:
        """The largest body that a request may have, in bytes."""
        is_open = request.method == "OPTIONS" or _route_of(request) in OPEN
        return min(MAX_OPEN_BODY, self.settings.max_body) if is_open else self.settings.max_body

    def _foreign(self, request: Request) -> ApiError | None:
        """Without a key, any page in a browser on this machine could use the model: only known pages may."""
        origin = request.headers.get("origin")
        if origin is None or self._keys or origin in self.settings.cors_origins or _is_own_page(origin, request.headers.get("host", "")):
            return None
        return ApiError(403, "Web pages may call this server only with a key, or named by --cors-origin.")

    def _locked(self, request: Request) -> ApiError | None:
        if not self._keys:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        shown = [request.headers.get("x-api-key", ""), token.strip() if scheme.lower() == "bearer" else ""]
        for value in shown:
            digest = hashlib.sha256(value.encode("latin-1", "replace")).digest()
            for known, name in self._keys.items():
                if hmac.compare_digest(known, digest):
                    request.record.client = name
        if request.record.client:
            return None
        return ApiError(401, "invalid x-api-key" if any(shown) else "x-api-key header or Authorization: Bearer is required")

    def headers_for(self, request: Request) -> Mapping[str, str]:
        """Headers of every answer."""
        origin = request.headers.get("origin")
        if origin is None or origin not in self.settings.cors_origins:
            return {}
        return {"access-control-allow-origin": origin, "vary": "origin", "access-control-expose-headers": _EXPOSED}

    def handle(self, exchange: Exchange) -> None:
        """Starts what answers a request."""
        request = exchange.request
        request.record.bytes_in = len(request.body)
        if request.method == "OPTIONS":
            self._options(exchange)
            return
        done = self._routes[_route_of(request)](exchange)
        if done is not None:
            task = self._spawn(self._run(exchange, done))
            exchange.on_gone = task.cancel  # type: ignore[assignment]

    def answered(self, request: Request, status: int) -> None:
        """Counts a request whose answer is complete."""
        self.stats.finished(request.record, request.request_id, status)

    async def _run(self, exchange: Exchange, work: Awaitable[None]) -> None:
        try:
            await work
        except ApiError as error:
            exchange.refuse(error)
        except Exception:
            self.log(traceback.format_exc())
            exchange.refuse(ApiError(500, "The bridge failed on this request."))

    def _spawn(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _forwarded(self, request: Request) -> dict[str, str]:
        return forwarded_headers(request, with_key=not self._keys)

    # --- routes of its own

    def _here(self, exchange: Exchange) -> None:
        """Claude Code looks whether anybody is here before it has a key, once a minute."""
        exchange.answer(200, b"")

    def _unread(self, exchange: Exchange) -> None:
        """Claude Code's telemetry: taken, so that it does not come again, and thrown away."""
        exchange.answer_json(200, {})

    def _health(self, exchange: Exchange) -> None:
        state = self.gate.now()
        exchange.answer_json(200, {"status": "ok"} if state is None else {"status": "ok", "engine": state.state})

    async def _ready(self, exchange: Exchange) -> None:
        state = self.gate.now()
        is_ready, why = await self.engines.ready() if state is None or state.is_answering else (False, f"The engine is {state.about}.")
        exchange.answer_json(200 if is_ready else 503, {"status": "ready"} if is_ready else {"status": "not ready", "reason": why})

    async def _models(self, exchange: Exchange) -> None:
        await self.engines.known()
        request = exchange.request
        exchange.answer_json(200, self.engines.names.page(anthropic="anthropic-version" in request.headers, query=request.query))

    async def _model(self, exchange: Exchange) -> None:
        await self.engines.known()
        request = exchange.request
        name = request.path.removeprefix("/v1/models/")
        exchange.answer_json(200, self.engines.names.entry(name, anthropic="anthropic-version" in request.headers))

    async def _engine_metrics(self) -> tuple[int, bytes]:
        try:
            return await self.engines.first.fetch("GET", "/metrics", seconds=ASK_S, extra=True)
        except ApiError:
            return 503, b""

    async def _metrics(self, exchange: Exchange) -> None:
        status, engine = await self._engine_metrics()
        gauges = [
            ("engine_up", "Whether the engine gave its metrics.", float(status == 200)),
            ("requests_at_engine", "Requests under way at the engines.", float(sum(u.active for u in self.engines.all))),
            ("requests_held", "Requests that wait for an engine that reloads or swaps.", float(self.gate.held)),
            ("engine_connections", "Connections to the engines.", float(sum(u.open_connections for u in self.engines.all))),
            ("client_connections", "Connections of clients.", float(len(self.server.connections))),
            ("streams", "Streamed answers under way.", float(len(self.sweep))),
        ]
        text = (engine.rstrip(b"\n") + b"\n" if status == 200 and engine else b"") + self.stats.text(gauges).encode()
        exchange.answer(200, text, {"content-type": "text/plain; version=0.0.4; charset=utf-8"})

    def _console(self, exchange: Exchange) -> None:
        exchange.answer(200, console.PAGE, console.PAGE_HEADERS)

    async def _console_data(self, exchange: Exchange) -> None:
        status, engine = await self._engine_metrics()
        names = [name for model in self.engines.models for name in model.names[:1]]
        # This request itself is not worth showing.
        now = self.server.requests - 1
        shown = console.data(self.stats, self.sweep, mode=self.settings.mode, models=names, requests=now,
                             engine=engine if status == 200 else None)  # fmt: skip
        exchange.answer_json(200, shown)

    def _options(self, exchange: Exchange) -> None:
        """A browser asks whether a page may call. Only a page that the settings name is told so, in the headers of every answer;
        for any other page the browser itself refuses."""
        asked = exchange.request.headers.get("access-control-request-headers", "content-type")
        allowed = {"access-control-allow-methods": "GET, POST", "access-control-allow-headers": asked, "access-control-max-age": "600"}
        exchange.answer(204, b"", allowed)


def _supervisor(environ: Mapping[str, str]) -> Upstream:
    """Where the supervisor of this pod takes wishes."""
    return Upstream(f"http://127.0.0.1:{environ.get(STATUS_PORT_ENV) or DEFAULT_STATUS_PORT}")


def _is_own_page(origin: str, host: str) -> bool:
    """A page that came from this server, by a name that nobody else can make point here."""
    address = urlsplit(origin)
    return address.netloc == host and is_loopback(address.hostname or "")


def _route_of(request: Request) -> tuple[str, str]:
    path = request.path
    for beginning in _BY_BEGINNING:
        if path.startswith(beginning) and len(path) > len(beginning):
            return request.method, beginning + "*"
    return request.method, path.rstrip("/") or "/"


def _to_stdout(line: str) -> None:
    with contextlib.suppress(OSError):  # a log whose disk is full must take no request with it, and no start
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _to_stderr(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"[bridge] {text}", file=sys.stderr, flush=True)
