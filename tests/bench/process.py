"""Another process as Linux counts it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Process:
    """Read from /proc at each question; raises OSError once the process is gone."""

    pid: int

    @property
    def cpu_s(self) -> float:
        """Seconds of user and system time so far, in steps of 10 ms."""
        # The name in parentheses may hold spaces, so the fields are counted from behind it.
        fields = self._text("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory_mib(self) -> float:
        """Resident memory."""
        return int(self._text("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB

    @property
    def descriptors(self) -> int:
        """Open files and sockets."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def _text(self, name: str) -> str:
        return Path(f"/proc/{self.pid}/{name}").read_text()
