"""The engine's log while it grows: phases of a start for people, how far it is for the watchdog, and the cause when it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pod.journal.engine_errors import SICK_HOST, Error
from pod.journal.engine_log import EngineLog, Fact, Phase
from pod.supervisor.events import Progress
from pod.watchdog.stall import Boot

# One look reads this much at most; an engine that floods its log is behind by a look or two.
_CHUNK = 1 << 20
# A line without an end that is longer than this is none.
_LONGEST_LINE = 1 << 16
# What the log of an adopted engine is looked back at.
_LOOK_BACK = 512 << 10


class Reader:
    """Reads one file from where one start begins. `tell` gets progress; `note` what belongs into the journal."""

    def __init__(self, path: Path, tell: Callable[[Progress], None], note: Callable[..., None]) -> None:
        self._path, self._tell, self._note = path, tell, note
        self._offset, self._rest = 0, b""
        self._log = EngineLog()

    def begin(self) -> None:
        """A start begins: what is in the file is of others."""
        self._offset, self._rest, self._log = self._size(), b"", EngineLog()

    def look_back(self) -> None:
        """The engine was adopted: its figures are somewhere in what is there."""
        self._offset, self._rest, self._log = max(0, self._size() - _LOOK_BACK), b"", EngineLog()
        self.read(is_quiet=True)

    def read(self, *, is_quiet: bool = False) -> None:
        """Take in what is new."""
        if self._size() < self._offset:  # it was cut
            self._offset, self._rest = 0, b""
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._offset)
                data = stream.read(_CHUNK)
        except OSError:
            return
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            for found in self._log.feed(line.decode("utf-8", "replace")):
                if not is_quiet:
                    self._told(found)

    def _told(self, found: Phase | Fact | Error) -> None:
        if isinstance(found, Phase):
            count = f"{found.done} of {found.total}" if found.total else ""
            self._tell(Progress(found.name, count))
            if not found.total or found.done == found.total:
                self._note("engine-phase", found.name, phase=found.name)
        elif isinstance(found, Error) and found.is_known:
            self._note("engine-error", found.cause, error=found.kind, fix=found.cure)

    @property
    def boot(self) -> Boot:
        """How far the start is."""
        phase = self._log.phase or Phase("start")
        return Boot(phase.name, phase.done, phase.total, self._log.loaded)

    @property
    def facts(self) -> dict[str, float]:
        """Figures that the engine printed."""
        return dict(self._log.facts)

    def cause(self) -> tuple[str, bool]:
        """Why the engine ended, in short, and whether the host is sick. Where no error is recognised it is what was said last; empty when that is nothing."""
        while self._offset < self._size():
            self.read(is_quiet=True)
        error = self._log.cause()
        if error is None:
            complaint = self._log.complaint()
            return (f"its log ends with: {complaint}" if complaint else "", False)
        return (f"{error.cause}{'; ' + error.cure if error.cure else ''}", error.kind == SICK_HOST)

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size  # noqa: PTH116 - asked twice a second
        except OSError:
            return 0


