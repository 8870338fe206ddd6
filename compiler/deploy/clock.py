"""Time, so that tests can replay an hour in a moment."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in seconds since 1970, and waiting."""

    def time(self) -> float:
        """Now."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        """Now."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait; Ctrl-C ends it."""
        time.sleep(seconds)


class Pace:
    """Keeps requests apart: no two of them within `seconds`, however many places ask."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._next = 0.0

    def wait(self) -> None:
        """Come back when the next request may go."""
        now = self._clock.time()
        if now < self._next:
            self._clock.sleep(self._next - now)
        self._next = max(now, self._next) + self._seconds
