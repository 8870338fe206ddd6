"""Streamed answers on their way: the engine's bytes through a stream object to the client, and pings into silence.

One sweep looks after all of them: no timer, task or queue belongs to a single stream.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from pod.bridge import errors
from pod.bridge.engine_answer import Answer
from pod.bridge.errors import ApiError
from pod.bridge.exchange import Exchange
from pod.bridge.keepalive import PingStream
from pod.bridge.stats import Record

HEAD = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}
# Until then an engine's refusal keeps its status; Claude Code and proxies wait 15 s for a first byte.
COMMIT_S = 10.0
# How long an engine may take to close an answer that is complete, so that its connection can be used again.
TRAIL_S = 2.0
MAX_TICK_S = 0.5


class Stream(Protocol):
    """What streams of all modes share; see the package's docstring."""

    started: bool
    done: bool
    failure: ApiError | None

    def feed(self, data: bytes) -> list[bytes]: ...
    def flush(self, why: ApiError | None = None) -> list[bytes]: ...
    def begin(self) -> list[bytes]: ...
    def beat(self) -> list[bytes]: ...
    def fail(self, error: ApiError) -> list[bytes]: ...


class Sweep:
    """Looks after all live streams, every `tick` seconds: a tenth of the ping interval, and at most half a second."""

    def __init__(self, ping_s: float, silence_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._all: set[Live] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.ping_s, self.silence_s, self.tick = ping_s, silence_s, min(MAX_TICK_S, ping_s / 10)

    def set_times(self, ping_s: float, silence_s: float) -> None:
        """New times, also for the streams that are open."""
        self.ping_s, self.silence_s, self.tick = ping_s, silence_s, min(MAX_TICK_S, ping_s / 10)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Live]:
        return iter(list(self._all))

    def add(self, live: Live) -> None:
        """Looks after one more; the sweep runs while there is one."""
        self._all.add(live)
        if self._timer is None:
            self._timer = self._loop.call_later(self.tick, self._run)

    def discard(self, live: Live) -> None:
        """Forgets one."""
        self._all.discard(live)

    def fail_all(self, error: ApiError) -> None:
        """Ends all of them with an error."""
        for live in list(self._all):
            live.fail(error)

    def _run(self) -> None:
        now = self._loop.time()
        for live in list(self._all):
            live.sweep(now)
        self._timer = self._loop.call_later(self.tick, self._run) if self._all else None


class Live:
    """One streamed answer. It begins before the engine has answered, since the client must hear something by then."""

    def __init__(self, exchange: Exchange, stream: Stream, sweep: Sweep, record: Record, log: Callable[[str], None]) -> None:
        self._exchange, self._stream, self._sweep, self._record, self._log = exchange, stream, sweep, record, log
        self._time = asyncio.get_running_loop().time
        self._task = asyncio.current_task()
        self._answer: Answer | None = None
        self._head: Mapping[str, str] = HEAD
        self._has_head = False
        self._last_out = self._last_in = self._time()
        self._commit_at = self._last_out + min(COMMIT_S, sweep.ping_s) - sweep.tick
        self._ended: float | None = None
        self._is_held = False
        exchange.on_gone, exchange.on_flow = self._gone, self._flow
        sweep.add(self)

    def hold(self, is_held: bool) -> None:
        """While it is held, an engine that is silent is no fault."""
        self._is_held = is_held
        self._last_in = self._time()

    def attach(self, answer: Answer, head: Mapping[str, str] | None = None) -> None:
        """The engine's answer has begun. `head` are headers for the client where they are the engine's to choose."""
        self._task = None
        if self._exchange.is_over:
            answer.cancel()
            return
        self._answer = answer
        self._head = head or HEAD
        self._last_in = self._time()
        if self._exchange.is_paused:
            answer.pause(True)
        answer.listen(self._data, self._end)

    def detach(self) -> bool:
        """Leaves the answer to whoever asks, and says whether it can still be a whole one: nothing was sent yet."""
        if self._has_head or self._exchange.is_over:
            return False
        self._task = None
        self._gone_quiet()
        self._exchange.on_gone = self._exchange.on_flow = None
        return True

    def fail(self, error: ApiError) -> None:
        """Ends it with an error: a status while nothing was sent, an event afterwards."""
        self._guarded(self._stream.fail, error)

    def snapshot(self) -> dict[str, Any]:
        """What a person wants to know of it now; `tokens` 0 where the bytes are only handed on."""
        record, usage = self._record, getattr(self._stream, "usage", None)
        return {
            "request": self._exchange.request.request_id, "client": record.client, "model": record.model, "pings": record.pings,
            "seconds": time.monotonic() - record.started, "tokens": usage.completion if usage is not None else 0,
        }  # fmt: skip

    def sweep(self, now: float) -> None:
        """Looks at the clock."""
        if self._ended is not None:
            if now - self._ended > TRAIL_S:
                self._leave()
        elif self._exchange.is_paused:
            if now - self._last_out > self._sweep.silence_s:
                self._record.notes.append("the client stopped reading")
                self._exchange.abort()
        elif now - self._last_in > self._sweep.silence_s and not self._is_held:
            self.fail(errors.silent(self._sweep.silence_s))
        elif self._has_head:
            if now - self._last_out >= self._sweep.ping_s - self._sweep.tick:
                self._record.pings += 1
                self._guarded(self._stream.beat)
        elif now >= self._commit_at:
            self._record.pings += 1
            self._out(self._stream.begin() or self._stream.beat())

    # --- the engine's side

    def _data(self, data: bytes) -> None:
        self._last_in = self._time()
        self._record.got_first()
        self._guarded(self._stream.feed, data)

    def _end(self, error: ApiError | None) -> None:
        self._answer = None
        if self._ended is not None:
            self._sweep.discard(self)
        elif isinstance(error, errors.CutOffError) and not isinstance(self._stream, PingStream):
            # A translated stream knows whether its answer was complete before the connection broke.
            self._guarded(self._stream.flush)
        else:
            self._guarded(self._stream.flush, error)

    def _guarded(self, make: Callable[..., list[bytes]], *arguments: Any) -> None:
        try:
            frames = make(*arguments)
        except Exception:
            self._log(traceback.format_exc())
            frames = self._stream.fail(ApiError(500, "The bridge failed on the engine's answer."))
        self._out(frames)

    def _out(self, frames: list[bytes]) -> None:
        if self._exchange.is_over:
            return
        stream = self._stream
        if frames:
            if not self._has_head:
                if stream.failure is not None and not stream.started:
                    self._told()
                    self._exchange.refuse(stream.failure)
                    self._gone_quiet()
                    return
                self._has_head = True
                self._exchange.start(200, self._head)
            self._exchange.write(frames[0] if len(frames) == 1 else b"".join(frames))
            self._last_out = self._time()
        if stream.done:
            self._over()

    def _over(self) -> None:
        """Everything for the client was said."""
        if not self._has_head and not self._exchange.is_over:
            self._exchange.start(200, self._head)
        self._told()
        self._exchange.end()
        self._ended = self._time()
        if self._answer is None or self._stream.failure is not None:
            self._leave()

    def _told(self) -> None:
        record, stream = self._record, self._stream
        record.usage, record.stop = getattr(stream, "usage", None), getattr(stream, "stop_reason", None)
        record.notes += getattr(stream, "notes", [])
        record.engine_id = record.engine_id or getattr(stream, "engine_id", None) or ""
        if stream.failure is not None:
            record.error, record.error_kind = stream.failure.message, stream.failure.kind

    # --- the client's side

    def _flow(self, is_writable: bool) -> None:
        if self._answer is not None:
            self._answer.pause(not is_writable)
        if is_writable:
            self._last_in = self._last_out = self._time()

    def _gone(self) -> None:
        self._told()
        self._gone_quiet()

    def _gone_quiet(self) -> None:
        self._ended = self._time()
        self._leave()

    def _leave(self) -> None:
        self._sweep.discard(self)
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.cancel()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
