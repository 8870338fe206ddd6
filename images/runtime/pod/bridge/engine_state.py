"""What the supervisor says of the engine: a file that it replaces at each change, read again when it changed.

Nothing is asked of the supervisor itself, so that a bridge goes on by the last word while the supervisor restarts. A bridge
without such a file stands alone and just asks the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pod.bridge.codec import BadJsonError, loads

FILE_ENV = "PODWRIGHT_ENGINE_STATE"
# One look at the file costs a microsecond or two; four a second while somebody waits are early enough for a client.
LOOK_S = 0.25
DEFAULT_RETRY_S = 30
# States in which the engine takes requests; a degraded pod may still have its engine, which then answers for itself.
SERVING, DEGRADED = "serving", "degraded"
ANSWERING = frozenset({SERVING, DEGRADED})


class EngineState(NamedTuple):
    """`model` is the name of the engine that is loaded or being loaded; `hold`: clients are to wait rather than be sent away.
    `port` None where it was not said; `since` in seconds since 1970 tells a restart from the same state; `retry_after_s` in seconds."""

    state: str
    model: str
    served_names: tuple[str, ...]
    port: int | None
    detail: str
    hold: bool
    retry_after_s: int
    since: float

    @property
    def engine(self) -> tuple[str, tuple[str, ...], int | None]:
        """Which engine it is, where, and under which names."""
        return self.model, self.served_names, self.port

    @property
    def is_answering(self) -> bool:
        """Whether the engine takes requests."""
        return self.state in ANSWERING

    @property
    def about(self) -> str:
        """The state for a person."""
        return f"{self.state} ({self.detail})" if self.detail else self.state


def state_of(data: Any) -> EngineState | None:
    """The state in a parsed file; None where it names none. Fields that are missing or new do not matter."""
    if not isinstance(data, Mapping) or not isinstance(data.get("state"), str):
        return None
    names, port = data.get("served_names"), data.get("port")
    return EngineState(
        data["state"], _text(data.get("model")), tuple(filter(None, map(_text, names))) if isinstance(names, list) else (),
        port if isinstance(port, int) and 0 < port < 65536 else None, _text(data.get("detail"))[:500], data.get("hold") is True,
        max(1, int(_number(data.get("retry_after_s"), DEFAULT_RETRY_S))), _number(data.get("since"), 0.0),
    )  # fmt: skip


def _number(value: Any, default: float) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class StateFile:
    """The state, as the file has it now. `on_change` is called with each new one; `log` gets what is wrong with the file."""

    def __init__(self, path: Path, on_change: Callable[[EngineState | None], None], log: Callable[[str], None]) -> None:
        self._path, self._on_change, self._log = path, on_change, log
        self._stamp: tuple[int, int, int] | None = None
        self._state: EngineState | None = None
        self._changed: asyncio.Future[None] | None = None
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> EngineState | None:
        """The state; None where there is no file. A file that cannot be read leaves the last state as it was."""
        try:
            found = self._path.stat()
        except OSError:
            self._became(None, None)
            return None
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._read(stamp)
        return self._state

    def _read(self, stamp: tuple[int, int, int]) -> None:
        try:
            state = state_of(loads(self._path.read_bytes()))
        except (OSError, BadJsonError) as error:
            self._stamp = stamp
            self._log(f"{self._path} cannot be read ({error}); what it said before stays in force")
            return
        if state is None:
            self._stamp = stamp
            self._log(f"{self._path} names no state of the engine; what it said before stays in force")
            return
        self._became(stamp, state)

    def _became(self, stamp: tuple[int, int, int] | None, state: EngineState | None) -> None:
        self._stamp = stamp
        if state == self._state:
            return
        self._state = state
        self._on_change(state)
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def changed(self, seconds: float) -> None:
        """Returns once the state is another one, or after some time. One timer looks for all who wait."""
        loop = asyncio.get_running_loop()
        if self._changed is None or self._changed.done():
            self._changed = loop.create_future()
        self._waiting += 1
        if self._timer is None:
            self._timer = loop.call_later(LOOK_S, self._look)
        try:
            await asyncio.wait((self._changed,), timeout=seconds)
        finally:
            self._waiting -= 1

    def _look(self) -> None:
        self._timer = None
        if self._waiting:
            self.now()
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
