"""The journal: what the runtime did and saw, one JSON object a line, redacted before it is kept anywhere."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from pod.journal.redact import Redactor

FILE_NAME = "journal.jsonl"
# Two files of this size are kept: some 20,000 lines, days of a pod's life.
MAX_FILE_BYTES = 4 << 20
# Lines kept in memory for status, mirror, and for a disk that is full for a while.
MAX_LINES = 2000
# What one line may hold. A diagnosis is some hundred characters; a traceback belongs to the engine's log.
MAX_MESSAGE_CHARS = 4000
# Pause between attempts to write to a disk that refused.
RETRY_S = 10.0


class Journal:
    """Never raises: what cannot be written to disk is kept in memory, `health` says so, and it is written when the disk takes it.

    `now` gives seconds since the epoch; `stream` gets a readable copy of each line for `docker logs`.
    """

    def __init__(self, folder: Path, redactor: Redactor, now: Callable[[], float] = time.time, stream: TextIO | None = sys.stdout) -> None:
        self.redactor = redactor
        self._path = folder / FILE_NAME
        self._now = now
        self._stream = stream
        self._lock = threading.Lock()
        self._file: int | None = None
        self._problem = ""
        self._retry_at = 0.0
        self._unwritten = 0
        self._lost = 0
        self._lines: collections.deque[dict[str, Any]] = collections.deque(self._kept(), maxlen=MAX_LINES)

    def write(self, kind: str, message: str, **facts: Any) -> None:
        """Add a line. `kind` is one word (`engine`, `publish`, `watchdog`), `facts` are JSON values that belong to it."""
        entry = self._entry(kind, message, facts)
        with self._lock:
            self._lines.append(entry)
            self._unwritten += 1
            if self._unwritten > MAX_LINES:
                self._lost, self._unwritten = self._lost + 1, MAX_LINES
            self._flush()
            if self._stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._stream.write(readable(entry) + "\n")
                    self._stream.flush()

    def flush(self) -> None:
        """Write what waits, where the disk takes it by now: otherwise it would wait for the next line."""
        with self._lock:
            if self._unwritten:
                self._flush()

    def tail(self, lines: int) -> list[dict[str, Any]]:
        """The last lines, oldest first, also those of former runs of this runtime."""
        with self._lock:
            return list(self._lines)[-lines:] if lines > 0 else []

    def health(self) -> dict[str, Any]:
        """Whether lines reach the disk; if not, why, and how many wait in memory or were lost."""
        with self._lock:
            return {"on_disk": not self._problem, "problem": self._problem, "waiting": self._unwritten, "lost": self._lost}

    def close(self) -> None:
        """Give the file back. A later `write` opens it again."""
        with self._lock:
            self._shut()

    def _entry(self, kind: str, message: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        seconds = self._now()
        at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds * 1000) % 1000:03d}Z"
        entry: dict[str, Any] = {"at": at, "kind": self.redactor.text(kind), "message": self.redactor.text(_cut(message))}
        try:
            plain = json.loads(json.dumps(facts, default=str, allow_nan=False))
            entry |= {name: value for name, value in self.redactor.value(plain).items() if name not in entry}
        except (TypeError, ValueError, RecursionError):
            entry["facts"] = self.redactor.text(_cut(repr(facts)))
        return entry

    def _flush(self) -> None:
        if self._problem and time.monotonic() < self._retry_at:
            return
        try:
            while self._unwritten:
                self._append(_encoded(self._lines[-self._unwritten]))
                self._unwritten -= 1
            self._problem = ""
        except OSError as error:
            self._problem, self._retry_at = error.strerror or str(error), time.monotonic() + RETRY_S
            self._shut()

    def _append(self, line: bytes) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        state = os.fstat(self._file)
        if state.st_nlink == 0:  # somebody cleaned the folder; lines in a nameless file would be lost
            self._shut()
            self._append(line)
            return
        size = state.st_size
        if size + len(line) > MAX_FILE_BYTES:
            self._path.replace(self._path.with_suffix(".jsonl.1"))
            self._shut()
            self._append(line)
            return
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            line = b"\n" + line  # a run before this one was killed in the middle of a line, or the disk became full there
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(28, "disk took only part of a line")

    def _shut(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
        self._file = None

    def _kept(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path in (self._path.with_suffix(".jsonl.1"), self._path):
            with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
                for line in collections.deque(file, maxlen=MAX_LINES):
                    with contextlib.suppress(ValueError, RecursionError):
                        entry = json.loads(line)
                        if isinstance(entry, dict) and {"at", "kind", "message"} <= entry.keys():
                            found.append(entry)
        return found[-MAX_LINES:]


def readable(entry: Mapping[str, Any]) -> str:
    """One line of the journal for a person."""
    facts = " ".join(f"{name}={_shown(value)}" for name, value in entry.items() if name not in ("at", "kind", "message"))
    return f"{entry['at']} {entry['kind']}: {entry['message']}".replace("\n", "\\n") + (f"  [{facts}]" if facts else "")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) and value and " " not in value and "\n" not in value else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS] + " ..."


def _encoded(entry: Mapping[str, Any]) -> bytes:
    return (json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
