"""May the engine be started once more? A pure budget: it ends a loop that would only burn rented hours.

It counts ends of starts that the runtime saw with its own eyes, never a counter kept by somebody else: in August 2026 a stranger's
restarter left exit code 0 and a flat counter, and the watchdog of that time saw nothing.
"""

from __future__ import annotations

import dataclasses

# The window of the restart budget. It must hold twice `failed_starts` restarts of the slowest engine: a start of a large model takes 6 to
# 15 minutes and a wedge is found after 2, so an hour would hold too few and a model that wedges after each start would be paid for ever.
WINDOW_S = 7200.0
# Pause before the n-th start after starts that never served: a port or GPU memory that is about to be free needs no more.
BACK_OFF_S = (0.0, 10.0, 30.0, 60.0)


@dataclasses.dataclass(frozen=True)
class Decision:
    """Whether to start again, after how many seconds, and why (not)."""

    allowed: bool
    wait_s: float
    reason: str


class RestartBudget:
    """`failed_starts` starts in a row that never served, or twice as many restarts within two hours, open the breaker.

    It stays open until `reset`: something outside has to change first, such as a new manifest. `now` is monotonic seconds.
    """

    def __init__(self, failed_starts: int) -> None:
        self._limit = max(1, failed_starts)
        self._failed_in_a_row = 0
        self._restarts: list[float] = []
        self.open_because = ""

    @property
    def restarts(self) -> int:
        """Restarts granted within the window of the last question."""
        return len(self._restarts)

    def served(self) -> None:
        """The engine answered: the row of failed starts is broken. Restarts within the window still count."""
        self._failed_in_a_row = 0

    def reset(self) -> None:
        """Something has changed (a new manifest, a person's wish): all is forgotten and the breaker is closed."""
        self._failed_in_a_row, self._restarts, self.open_because = 0, [], ""

    def ask(self, now: float, had_served: bool, why: str) -> Decision:
        """Ask for one restart after a start ended, or has to be ended. A granted one is counted at once."""
        if self.open_because:
            return Decision(False, 0.0, self.open_because)
        if not had_served:
            self._failed_in_a_row += 1
        self._restarts = [at for at in self._restarts if now - at < WINDOW_S]
        if self._failed_in_a_row >= self._limit:
            self.open_because = f"{self._failed_in_a_row} starts in a row ended before serving, the last one by {why}"
        elif len(self._restarts) >= 2 * self._limit:
            self.open_because = f"{len(self._restarts)} restarts within {WINDOW_S / 60:.0f} minutes did not help, the last cause is {why}"
        if self.open_because:
            return Decision(False, 0.0, self.open_because)
        self._restarts.append(now)
        wait_s = BACK_OFF_S[min(self._failed_in_a_row, len(BACK_OFF_S) - 1)]
        return Decision(True, wait_s, why)
