"""The engines behind a bridge: their connections, their names and windows as they tell them, and what was learnt of them."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping

from pod.bridge.codec import BadJsonError, loads
from pod.bridge.engine_state import EngineState
from pod.bridge.errors import ApiError
from pod.bridge.models import Names
from pod.bridge.settings import Model, Settings
from pod.bridge.upstream import MAX_REQUESTS, Upstream

# An engine that serves answers this at once; one that starts refuses at once. Claude Code waits 3 s for a list of models.
ASK_S = 2.0
# How long an answer about readiness is good: many probes cost the engine one request a second.
READY_S = 1.0
# An engine that could not be asked is asked again at the next request, but not at each of a burst.
RETRY_S = 1.0


class Engines:
    """Connections by address, and `names`: those of the settings, completed by what the engines say.

    `no_budget` are the addresses of engines that refused a thinking budget.
    """

    def __init__(self, settings: Settings, *, limit: int = MAX_REQUESTS, key: str | None = None) -> None:
        self._limit, self._key = limit, key
        self._upstreams: dict[str, Upstream] = {}
        self._asked: dict[str, float] = {}
        self._told: dict[str, tuple[tuple[str, ...], int | None]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._ready: tuple[float, bool, str] = (float("-inf"), False, "")
        self._ready_task: asyncio.Task[tuple[float, bool, str]] | None = None
        self._state: EngineState | None = None
        self.no_budget: set[str] = set()
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Works by other settings from now; open connections stay."""
        self._settings = settings
        self._complete()
        urls = {model.upstream for model in self.models}
        for url in [url for url in self._upstreams if url not in urls]:
            self._upstreams.pop(url).close()

    def follow(self, state: EngineState | None) -> None:
        """Another engine is loaded, or the same one again: it answers names that nobody knows, and what was learnt is forgotten."""
        if state is not None and self._state is not None and state.engine == self._state.engine:
            return
        for model in self.models[:1]:
            self._forget(model)
        self._state = state
        self._complete()

    def of(self, model: Model) -> Upstream:
        """The connections to a model's engine."""
        url = model.upstream
        if url not in self._upstreams:
            self._upstreams[url] = Upstream(url, limit=self._limit, key=self._key)
        return self._upstreams[url]

    @property
    def first(self) -> Upstream:
        """The engine that is loaded, or the first model's."""
        return self.of(self.models[0])

    @property
    def all(self) -> list[Upstream]:
        """All engines."""
        return list(self._upstreams.values())

    def _complete(self) -> None:
        self.models = self._loaded_first([self._completed(model) for model in self._settings.models])
        self.names = Names(self.models, created=int(time.time()))

    def _completed(self, model: Model) -> Model:
        names, window = self._told.get(model.upstream, ((), None))
        return dataclasses.replace(model, names=model.names or names, context_window=model.context_window or window)

    def _loaded_first(self, models: list[Model]) -> tuple[Model, ...]:
        """The engine that is loaded goes first, by the names and the port that the supervisor gave it."""
        state = self._state
        loaded = next((model for model in models if state and model.engine == state.model), models[0] if len(models) == 1 else None)
        if state is None or loaded is None:
            return tuple(models)
        upstream = loaded.upstream if state.port is None else f"http://127.0.0.1:{state.port}"
        first = dataclasses.replace(loaded, names=state.served_names or loaded.names, upstream=upstream)
        return (first, *(model for model in models if model is not loaded))

    def is_loaded(self, model: Model) -> bool:
        """Whether the supervisor says that this model's engine is the loaded one; so is one that it has no name for."""
        return self._state is None or model.engine in ("", self._state.model) or not self._knows(self._state.model)

    def _knows(self, engine: str) -> bool:
        return any(model.engine == engine for model in self._settings.models)

    async def known(self) -> None:
        """Asks the engines for the names and windows that nobody has told; one that does not answer is left for later."""
        if all((model.names and model.context_window) or model.upstream in self._told for model in self.models):
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        await asyncio.shield(self._asking)

    def forget(self, model: Model) -> None:
        """An engine may have become another one: what it told is asked for again."""
        self._forget(model)
        self._complete()

    def _forget(self, model: Model) -> None:
        self._told.pop(model.upstream, None)
        self._asked.pop(model.upstream, None)
        self.no_budget.discard(model.upstream)

    async def _ask(self) -> None:
        for model in self.models:
            is_known = (model.names and model.context_window) or model.upstream in self._told
            if is_known or time.monotonic() - self._asked.get(model.upstream, float("-inf")) < RETRY_S:
                continue
            try:
                status, body = await self.of(model).fetch("GET", "/v1/models", seconds=ASK_S, extra=True)
                told = _told(loads(body)) if status == 200 else None
            except (ApiError, BadJsonError):
                told = None
            self._asked[model.upstream] = time.monotonic()
            if told is not None:
                self._told[model.upstream] = told
        self._complete()

    async def ready(self) -> tuple[bool, str]:
        """Whether the first engine serves now, and why not. Many callers cost one question."""
        if time.monotonic() - self._ready[0] > READY_S:
            if self._ready_task is None or self._ready_task.done():
                self._ready_task = asyncio.create_task(self._probe())
            self._ready = await asyncio.shield(self._ready_task)
        return self._ready[1], self._ready[2]

    async def _probe(self) -> tuple[float, bool, str]:
        try:
            status, _ = await self.first.fetch("GET", "/health", seconds=ASK_S, extra=True)
        except ApiError as error:
            return time.monotonic(), False, error.message
        return time.monotonic(), status == 200, "" if status == 200 else f"The engine's /health answers {status}."

    def close(self) -> None:
        """Closes all connections."""
        for upstream in self._upstreams.values():
            upstream.close()


def _told(data: object) -> tuple[tuple[str, ...], int | None] | None:
    """Names and window in an engine's /v1/models."""
    entries = data.get("data") if isinstance(data, Mapping) else None
    if not isinstance(entries, list):
        return None
    known = [entry for entry in entries if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)]
    windows = [entry["max_model_len"] for entry in known if isinstance(entry.get("max_model_len"), int)]
    return (tuple(entry["id"] for entry in known), windows[0] if windows else None) if known else None
