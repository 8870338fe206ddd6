"""Who may ask the engine now, who waits for it, and who is sent away: by the supervisor's word in `engine_state`.

A generation waits while the engine reloads, swaps or restarts after a crash (`hold`), and is refused at once while it boots
for the first time or cannot be brought back. A name of another engine makes the bridge ask the supervisor for a swap:
`POST /swap {"model": "<engine>"}`, where 2xx is a promise, 409 means not yet, and anything else is a refusal with its reason.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, TypeVar

from pod.bridge import errors
from pod.bridge.codec import dumps
from pod.bridge.engine_state import DEGRADED, EngineState, StateFile
from pod.bridge.engines import Engines
from pod.bridge.errors import ApiError
from pod.bridge.stats import Record
from pod.bridge.upstream import Upstream

# The supervisor only takes note of a wish before it answers.
SWAP_ANSWER_S = 5.0
# A wish is told again in case that the supervisor died with it.
SWAP_AGAIN_S = 5.0
# How long a supervisor may take to see that its engine has died: nobody can connect meanwhile, and the file still says serving.
NOTICE_S = 5.0
# The same where the engine's server outlives its core: vLLM looks every 5 s whether the core is there, and then takes some seconds to end.
DEAD_NOTICE_S = 30.0
ACCEPTED, NOT_YET = range(200, 300), 409


T = TypeVar("T")


class Verdict(NamedTuple):
    """What to do with a request: `error` where it is sent away, `swap` where the supervisor has to be asked, else wait or go on."""

    go: bool = False
    swap: bool = False
    error: ApiError | None = None


def verdict(state: EngineState, *, is_loaded: bool, was_loading: bool) -> Verdict:
    """What a state means for a request. `is_loaded`: the engine of the state is the wanted one; `was_loading`: it was once, while
    this request waited, so that another one now means that the swap has failed."""
    if not is_loaded and was_loading:
        return Verdict(error=errors.not_serving(f"the model could not be loaded; {state.about}", state.retry_after_s))
    if state.is_answering:
        return Verdict(go=is_loaded, swap=not is_loaded)
    return Verdict() if state.hold else Verdict(error=errors.not_serving(state.about, state.retry_after_s))


class Gate:
    """Stands before all generations of one bridge. `limit` is of requests that wait; `file` None lets everybody through."""

    def __init__(self, engines: Engines, file: StateFile | None, supervisor: Upstream, *, hold_s: float, limit: int) -> None:
        self.engines, self.file, self.supervisor, self.hold_s, self.limit = engines, file, supervisor, hold_s, limit
        self.held = 0

    def now(self) -> EngineState | None:
        """What the supervisor says; None where nobody does."""
        return None if self.file is None else self.file.now()

    async def ask_for(self, engine: str) -> None:
        """Tells the supervisor which engine is wanted. Raises ApiError 529 with its reason where it will not load that."""
        try:
            status, body = await self.supervisor.fetch("POST", "/swap", dumps({"model": engine}), seconds=SWAP_ANSWER_S)
        except ApiError:
            return  # it restarts, and is told again
        if status not in ACCEPTED and status != NOT_YET:
            raise errors.not_serving(errors.text_of(body) or f"the supervisor refused to load {engine}", errors.RETRY_AFTER_S)


class Visit:
    """One request at the gate."""

    def __init__(self, gate: Gate, requested: str, record: Record) -> None:
        self._gate, self._requested, self._record = gate, requested, record
        self._time = asyncio.get_running_loop().time
        self._until: float | None = None
        self._was_loading = False
        self._asked = float("-inf")

    async def through(self, ask: Callable[[bool], Awaitable[T]], hold: Callable[[bool], None]) -> T:
        """What `ask` gives, called as soon as the engine may be asked, and again where it took no connection or said that its core
        is gone. The latter once: the request may be what ends engines. It is told whether the request had to wait, so that another
        engine may be loaded now; `hold` is told when waiting begins and ends."""
        waited = has_met_death = False
        while True:
            hold(True)
            waited = await self.enter() or waited
            hold(False)
            try:
                return await ask(waited)
            except errors.UnconnectedError:
                hold(True)
                if not await self.lost("the engine took no connection", NOTICE_S):
                    raise
            except errors.DeadEngineError:
                hold(True)
                if has_met_death or not await self.lost("the engine's core is gone", DEAD_NOTICE_S):
                    raise
                has_met_death = True
            waited = True

    async def enter(self) -> bool:
        """Returns when the engine may be asked: True where the request had to wait, and another engine may be loaded by now.
        Raises ApiError 529."""
        gate = self._gate
        if gate.file is None:
            return False
        if (state := gate.now()) is None or self._verdict(state).go:
            return False
        if gate.held >= gate.limit:
            raise errors.saturated()
        began = self._time()
        gate.held += 1
        try:
            await self._wait(gate.file, began)
        finally:
            gate.held -= 1
            self._record.held_s += self._time() - began
        return True

    async def _wait(self, file: StateFile, began: float) -> None:
        self._until = self._until or began + self._gate.hold_s
        while (state := file.now()) is not None:
            found = self._verdict(state)
            if found.go:
                return
            if found.error is not None:
                raise found.error
            left = self._until - self._time()
            if left <= 0:
                raise errors.not_serving(f"{state.about}, for {self._gate.hold_s:g} s", state.retry_after_s)
            if found.swap and self._time() - self._asked >= SWAP_AGAIN_S:
                self._asked = self._time()
                await self._gate.ask_for(self._wanted())
            await file.changed(min(left, SWAP_AGAIN_S))

    async def lost(self, what: str, seconds: float) -> bool:
        """The engine cannot be asked, and `what` says why. True once the supervisor has seen it too, so that `enter` knows what to
        do; False where it has not after `seconds`. Raises ApiError 529 where the supervisor has no engine to offer."""
        file = self._gate.file
        if file is None or (state := file.now()) is None:
            return False
        if state.state == DEGRADED:
            raise errors.not_serving(state.about, state.retry_after_s)
        if not state.is_answering:
            return True
        self._record.notes.append(what)
        await file.changed(seconds)
        return file.now() != state

    def _wanted(self) -> str:
        return self._gate.engines.names.resolve(self._requested).model.engine

    def _verdict(self, state: EngineState) -> Verdict:
        is_loaded = self._gate.engines.is_loaded(self._gate.engines.names.resolve(self._requested).model)
        found = verdict(state, is_loaded=is_loaded, was_loading=self._was_loading)
        self._was_loading = self._was_loading or (is_loaded and self._asked > float("-inf"))
        return found


@contextlib.asynccontextmanager
async def silence_of(seconds: float) -> AsyncIterator[Callable[[bool], None]]:
    """Raises TimeoutError where what is inside takes longer; gives what stops that clock (True) and starts it anew (False)."""
    async with asyncio.timeout(seconds) as limit:
        yield lambda is_held: limit.reschedule(None if is_held else asyncio.get_running_loop().time() + seconds)
