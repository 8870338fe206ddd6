"""What a deploy shows while it works, always on stderr: one live line on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compiler.diagnostics import printable

if TYPE_CHECKING:
    from rich.status import Status

    from compiler.deploy.life import Stage
    from compiler.deploy.waiting import Progress


class Shown:
    """A `Display`. `agreed` answers every question with yes; without it and without a terminal the answer is no."""

    def __init__(self, live: Status | None = None, *, agreed: bool = False) -> None:
        self._live, self._agreed = live, agreed
        self._last = ""

    def say(self, text: str) -> None:
        """One thing that happened."""
        if self._live is not None:
            self._live.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
        else:
            print(printable(text), file=sys.stderr, flush=True)

    def stage(self, stage: Stage) -> None:
        """The deploy goes over to a stage."""
        if stage == "cleaning":
            self.say("cleaning up: looking for what would be billed")

    def progress(self, progress: Progress) -> None:
        """One look at the pod."""
        step = progress.step
        words = f"{step.phase}: {step.detail}" if step.detail else str(step.phase)
        spent = "" if progress.cost_usd is None else f", ${progress.cost_usd:.3f} so far"
        line = f"[{duration(progress.seconds)}{spent}] {words}"
        if self._live is not None:
            from rich.markup import escape

            self._live.update(escape(printable(line[:200])))
        elif words != self._last:
            self._last = words
            print(printable(line), file=sys.stderr, flush=True)

    def ask(self, question: str) -> bool:
        """A yes or no of the person."""
        if self._agreed:
            self.say(f"{question} yes (--yes)")
            return True
        if not sys.stdin.isatty():
            self.say(f"{question} nobody can be asked here")
            return False
        if self._live is not None:
            self._live.stop()
        try:
            print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)
            return sys.stdin.readline().strip().casefold() in ("y", "yes")
        finally:
            if self._live is not None:
                self._live.start()


@contextmanager
def shown(*, agreed: bool = False) -> Iterator[Shown]:
    """A display for this process's stderr."""
    if not sys.stderr.isatty():
        yield Shown(agreed=agreed)
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as live:
        yield Shown(live, agreed=agreed)


def duration(seconds: float) -> str:
    """`3 min 05 s`, `2 h 10 min`, `4 d 2 h`."""
    whole = int(max(0.0, seconds))
    days, hours, minutes, rest = whole // 86400, whole // 3600 % 24, whole // 60 % 60, whole % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def money(usd: float | None) -> str:
    """An amount of dollars, or that it is not known."""
    return "not known" if usd is None else f"${usd:.2f}"
