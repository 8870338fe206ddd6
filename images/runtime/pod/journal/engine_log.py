"""The engine's own log, line by line -> phases of its start, figures, and errors with a short cause. Reads vLLM 0.26 to 0.33.

Nothing is decided by it that a probe can tell: a log line that changes its words must cost a detail in the journal, not a restart.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
from pathlib import Path
from typing import Literal

from pod.journal.engine_errors import CORE_GONE, KILLED, Error, error_in

PhaseName = Literal["start", "load", "compile", "capture", "warm-up", "serving"]
_ORDER: tuple[PhaseName, ...] = ("start", "load", "compile", "capture", "warm-up", "serving")
# How far back the cause of a death is looked for. The tracebacks of eight workers and their parents are some hundred lines.
CAUSE_LINES = 2000
# A line of a log that people read in another log.
COMPLAINT_CHARACTERS = 400

_PREFIX = re.compile(
    r"^(?:\([A-Za-z]\w*(?: pid=\d+)?\) |\[[\w.:-]+\]:? ?)*"
    r"(?:(DEBUG|INFO|WARNING|ERROR|CRITICAL):? +(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]*\] ?)?)?"
)
_COUNT = re.compile(r"\| +(\d+)/(\d+) \[")
# Requests of the watchdog and of whoever else only looks: a line every few seconds that tells nothing.
_LOOK = re.compile(r'"(?:GET|HEAD) /(?:health|metrics|ping|version|load)(?:\?\S*)? HTTP/')

_PHASES: dict[PhaseName, re.Pattern[str]] = dict(zip(_ORDER, map(re.compile, (
    r"non-default args:|Initializing a V1 LLM engine",
    r"Starting to load model|Loading \w+ checkpoint shards|Model loading took|Loading weights took",
    r"Dynamo bytecode transform|Compiling a graph for|torch\.compile took|Warming up model for the compilation|AOT compil"
    r"|Directly load the compiled",
    r"Capturing CUDA graphs|Graph capturing finished",
    r"init engine \(profile, create kv cache, warmup model\) took",
    r"Application startup complete",
)), strict=True))  # fmt: skip
_LOADED = re.compile(r"Model loading took|Loading weights took|GPU KV cache size|Available KV cache memory")
_FIGURES = tuple((re.compile(pattern), names) for pattern, names in (
    (r"Model loading took ([\d.]+) GiB(?: memory)? and ([\d.]+) seconds", ("weights_gib", "load_s")),
    (r"Loading weights took ([\d.]+) seconds", ("load_s",)),
    (r"torch\.compile took ([\d.]+) s in total", ("compile_s",)),
    (r"Initial profiling/warmup run took ([\d.]+) s", ("profile_s",)),
    (r"Available KV cache memory: (-?[\d.]+) GiB", ("kv_gib",)),
    (r"GPU KV cache size: ([\d,]+) tokens", ("kv_tokens",)),
    (r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x", ("window_tokens", "concurrency")),
    (r"Graph capturing finished in ([\d.]+) secs?, took (-?[\d.]+) GiB", ("capture_s", "capture_gib")),
    (r"init engine \(profile, create kv cache, warmup model\) took ([\d.]+) s", ("init_s",)),
    (r"Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+) tokens/s",
     ("prompt_tokens_per_s", "generation_tokens_per_s")),
    (r"Running: (\d+) reqs, Waiting: (\d+) reqs", ("running", "waiting")),
    (r"GPU KV cache usage: ([\d.]+)%", ("kv_usage_percent",)),
    (r"Prefix cache hit rate: ([\d.]+)%", ("prefix_hit_percent",)),
))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Phase:
    """The start has come to `name`, and to `done` of `total` steps in it (shards, graphs); 0 of 0 where nothing is counted."""

    name: PhaseName
    done: int = 0
    total: int = 0


@dataclasses.dataclass(frozen=True)
class Fact:
    """A figure that the engine printed; the name ends with its unit."""

    name: str
    value: float


class EngineLog:
    """Reads one start of the engine. `phase`, `loaded` (weights are in memory) and `facts` are what it knows by now."""

    def __init__(self) -> None:
        self.phase: Phase | None = None
        self.loaded = False
        self.facts: dict[str, float] = {}
        self._lines = 0
        self._errors: collections.deque[tuple[int, Error]] = collections.deque(maxlen=64)
        self._stopping = False
        self._complaint, self._complained_at = "", 0

    def feed(self, line: str) -> tuple[Phase | Fact | Error, ...]:
        """What this line adds to what was known: nothing, for most lines."""
        self._lines += 1
        text = line.rstrip("\n").rpartition("\r")[2]
        found = _PREFIX.match(text)
        level, message = (found.group(1), text[found.end():]) if found else (None, text)
        if message.startswith("[shutdown]") and ("signal=" in message or "shutdown triggered" in message):
            self._stopping = True
        if message.strip() and level != "INFO" and not _LOOK.search(message):
            self._complaint, self._complained_at = message.strip(), self._lines
        if level in (None, "ERROR", "CRITICAL") or CORE_GONE in message:
            error = self._error(message)
            if error:
                return (error,)
        if level in ("ERROR", "CRITICAL") or _LOOK.search(message):
            return ()
        return (*self._advance(message), *self._figures(message))

    def cause(self) -> Error | None:
        """Why it died, if it has just died: the first known kind of the last lines in its fullest words, or else the first exception.
        None when it was told to stop, or said nothing."""
        recent = [error for at, error in self._errors if at > self._lines - CAUSE_LINES]
        # That a process died tells less than any words of its own.
        known = [error for error in recent if error.is_known and error.kind != KILLED]
        same = [error for error in known if error.kind == known[0].kind]
        others = [error for error in recent if not error.is_known]
        return max(same, key=lambda error: len(error.cause)) if same else next(iter(others or recent), None)

    def complaint(self) -> str:
        """The last of its last lines that is no news of a good start, cut to a readable length; empty when it was told to stop."""
        return "" if self._stopping or self._complained_at <= self._lines - CAUSE_LINES else self._complaint[:COMPLAINT_CHARACTERS]

    def _error(self, message: str) -> Error | None:
        error = error_in(message)
        if error is None or self._stopping or any(error == known for _, known in self._errors):
            return None
        self._errors.append((self._lines, error))
        return error

    def _advance(self, message: str) -> tuple[Phase, ...]:
        self.loaded = self.loaded or bool(_LOADED.search(message))
        name = next((name for name, pattern in _PHASES.items() if pattern.search(message)), None)
        if name is None:
            return ()
        before = self.phase
        if before and _ORDER.index(name) < _ORDER.index(before.name):
            return ()
        self.loaded = self.loaded or _ORDER.index(name) > _ORDER.index("load")
        count = _COUNT.search(message)
        done, total = (int(count.group(1)), int(count.group(2))) if count else (0, 0)
        if not total and before and before.name == name:
            return ()
        if name == "serving":  # what a start complained of did not end an engine that served
            self._complaint = ""
        self.phase = Phase(name, done, total)
        return () if self.phase == before else (self.phase,)

    def _figures(self, message: str) -> tuple[Fact, ...]:
        new = [Fact(name, float(text.replace(",", ""))) for pattern, names in _FIGURES if (found := pattern.search(message))
               for name, text in zip(names, found.groups(), strict=True)]
        self.facts.update((fact.name, fact.value) for fact in new)
        return tuple(new)


def without_looks(text: str) -> str:
    """A log without the access lines of probes."""
    return "".join(line for line in text.splitlines(keepends=True) if not _LOOK.search(line))


def tail_of(path: Path, size: int) -> str:
    """The last `size` bytes of a file, from the start of a line on; empty when it cannot be read."""
    try:
        with open(path, "rb") as file:
            length = file.seek(0, os.SEEK_END)
            start = max(0, length - size)
            file.seek(max(0, start - 1))
            data = file.read(length - max(0, start - 1))
    except OSError:
        return ""
    if start > 0:
        data = data[1:] if data[:1] == b"\n" else data[1:].partition(b"\n")[2]
    return data.decode("utf-8", "replace")
