"""How far a download is, measured on the disk: it needs nothing of the library that does the work, and cannot lie."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

PERIOD_S = 1.0
# The rate is taken over this long, so that it is calm and still shows a connection that has slowed down.
RATE_WINDOW_S = 10.0
# Bounds how long a download may bring no byte at all before it counts as hung. A Hub under load has been seen to keep a
# request for two minutes; the requests themselves give up sooner.
STALL_S = 300.0


class Meter:
    """Reports once a second while the block runs: {"event": "progress", "done_bytes", "total_bytes", "mib_s"}.

    `measured` gives the bytes on disk. Nothing is reported before `expect` has said what is to come. `stalled` is called
    once, from the meter's thread, when no byte has come for `stall_s` seconds.
    """

    def __init__(
        self,
        measured: Callable[[], int],
        report: Callable[[dict[str, Any]], None],
        stalled: Callable[[float], None] = lambda seconds: None,
        period_s: float = PERIOD_S,
        stall_s: float = STALL_S,
    ) -> None:
        self._measured, self._report, self._stalled = measured, report, stalled
        self._period_s, self._stall_s = period_s, stall_s
        self._total = self._offset = 0
        self._last: dict[str, Any] = {}
        self._samples: deque[tuple[float, int]] = deque()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
            self._tell(is_complete=kind is None)

    def expect(self, total_bytes: int, done_bytes: int) -> None:
        """From now on: so many bytes in all, of which so many are there already."""
        self._total, self._offset = total_bytes, done_bytes - self._measured()
        self._thread.start()

    def _run(self) -> None:
        best, changed = -1, time.monotonic()
        while True:
            done = self._tell()
            now = time.monotonic()
            if done > best:
                best, changed = done, now
            elif now - changed >= self._stall_s:
                self._stalled(now - changed)
                return
            if self._ended.wait(self._period_s):
                return

    def _tell(self, is_complete: bool = False) -> int:
        """Files with the same content are stored once, so the count on disk may end short of the total."""
        now = time.monotonic()
        done = self._total if is_complete else max(0, min(self._total, self._measured() + self._offset))
        self._samples.append((now, done))
        while now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()
        seconds, before = now - self._samples[0][0], self._samples[0][1]
        rate = (done - before) / seconds / (1 << 20) if seconds > 0 else 0.0
        said = {"event": "progress", "done_bytes": done, "total_bytes": self._total, "mib_s": round(max(rate, 0.0), 1)}
        if said != self._last:
            self._last = said
            self._report(said)
        return done
