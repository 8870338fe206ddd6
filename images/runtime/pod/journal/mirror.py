"""The journal's copy on the Hub: when it is due, and what is in it. The upload itself is `python -m pod.hub upload`.

It is how a pod without a shell is read from outside, and what is left of one that is gone: a pod's log dies with its container.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pod.journal.engine_log import tail_of, without_looks
from pod.journal.journal import readable
from pod.journal.redact import Redactor
from pod.watchdog.metrics import Counters

State = Literal["booting", "serving", "fatal"]

JOURNAL_BYTES = 25_000
ENGINE_BYTES = 60_000
BRIDGE_BYTES = 20_000
# Read besides what is shown, so that a secret cut by the end of the window is seen whole and masked before the cut.
MARGIN_BYTES = 4_096
# How much more is read than shown, because most lines of a quiet engine's log are those of probes.
LOOKS = 8
# Pause before the first copy after a change of state: the lines that explain the change arrive within it.
SETTLE_S = 5.0
# The longest pause after copies that failed, and the first one. A Hub that refuses must not be asked at the boot's pace.
MAX_BACK_OFF_S = 600.0
FIRST_BACK_OFF_S = 30.0


class Schedule:
    """When the next copy is due, by the caller's monotonic seconds. With a `period_s` of 0 one copy tells that it serves, and no more
    follow."""

    def __init__(self, boot_period_s: float, period_s: float) -> None:
        self._boot_period_s, self._period_s = boot_period_s, period_s
        self._state: State | None = None
        self._next_at = 0.0
        self._copied = ""
        self._failures = 0

    def due(self, now: float, state: State) -> bool:
        """Whether to make a document now. A fatal state is due at once, whatever failed before."""
        if state != self._state:
            settle_s = 0.0 if self._state is None or state == "fatal" else SETTLE_S
            back_off_until = self._next_at if self._failures and state != "fatal" else 0.0
            self._state, self._next_at = state, max(now + settle_s, back_off_until)
        return now >= self._next_at

    def wanted(self, now: float, document: str) -> bool:
        """Whether `document` is worth a copy. While booting, and after a fatal end, only one that says something new is."""
        if self._state != "serving" and fingerprint(document) == self._copied:
            self._next_at = now + self._boot_period_s
            return False
        return True

    def copied(self, now: float, document: str) -> None:
        """The copy arrived."""
        self._copied, self._failures = fingerprint(document), 0
        period_s = self._boot_period_s if self._state != "serving" else self._period_s or float("inf")
        self._next_at = now + period_s

    def failed(self, now: float) -> None:
        """The copy did not arrive: wait longer each time, and serve on."""
        self._next_at = now + min(MAX_BACK_OFF_S, FIRST_BACK_OFF_S * 2.0 ** min(self._failures, 10))
        self._failures += 1


@dataclasses.dataclass(frozen=True)
class Subject:
    """Whose document it is. `port` is the engine's own, where its counters were read; never the bridge's."""

    pod_id: str
    profile: str
    release: str
    state: str
    detail: str
    port: int


def path_in_repo(pod_id: str, fatal: bool = False) -> str:
    """One file a pod, overwritten; a fatal end has its own, so that the next start does not wipe it."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", pod_id)[:80] or "pod"
    return f"state/{'fatal-' if fatal else ''}{name}.log"


def document(now: float, subject: Subject, entries: Iterable[Mapping[str, Any]], gpus: str, counters: Counters | None, engine_log: str,
             bridge_log: str, redactor: Redactor) -> str:
    """The whole document, redacted. `now` is seconds since the epoch, `gpus` what nvidia-smi says of memory; the logs
    come from `end_of`."""
    utc = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
    engine = counters.line() if counters and counters.engines else "publishes no counters" if counters else "does not answer"
    head = [f"===== podwright: pod {subject.pod_id}, profile {subject.profile}, {subject.release} =====", f"UTC {utc}",
            f"state: {subject.state}{f' ({subject.detail})' if subject.detail else ''}"]
    parts = (
        ("journal", _last_bytes("\n".join(readable(entry) for entry in entries), JOURNAL_BYTES)),
        ("GPU memory (nvidia-smi)", gpus.strip() or "no GPU is seen"),
        (f"engine on port {subject.port}", engine),
        ("end of the engine's log", engine_log),
        ("end of the bridge's log", bridge_log),
    )
    text = "\n".join([*head, *(f"\n----- {title} -----\n{body.rstrip()}" for title, body in parts)]) + "\n"
    return redactor.text(text)


def end_of(path: Path, size: int, redactor: Redactor) -> str:
    """The redacted end of a log, `size` bytes at most, without the access lines of probes."""
    read = LOOKS * size + MARGIN_BYTES
    text = without_looks(tail_of(path, read))
    window = _last_bytes(text, size + MARGIN_BYTES)
    if window != text or _size(path) > read:
        window = window.partition("\n")[2]  # may be the second half of a wrapped secret whose first half is out of sight
    return _last_bytes(redactor.text(window), size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def fingerprint(document: str) -> str:
    """The same for two documents that differ only in the hour they were made at."""
    return hashlib.sha256(re.sub(r"(?m)^UTC .*$", "", document, count=1).encode("utf-8", "replace")).hexdigest()


def _last_bytes(text: str, size: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= size:
        return text
    data = data[-size:]
    return (data.partition(b"\n")[2] or data).decode("utf-8", "ignore")
