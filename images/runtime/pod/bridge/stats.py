"""What the bridge counts: Prometheus metrics of its own, and one line of JSON a request for the log.

No text of a prompt or an answer is ever counted or logged, and what looks like a secret is taken out of errors.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from pod.bridge.answers import Usage
from pod.bridge.codec import dumps
from pod.bridge.errors import redacted

# In seconds: from a cached prompt to the longest prefill that was measured (539 s).
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
ABORTED = 499
# Probes come every few seconds and say nothing that their counter does not.
QUIET = frozenset({"/", "/health", "/ready", "/metrics", "/console", "/console/data", "/api/hello", "/api/event_logging/*"})
_REPEATED = re.compile(r"""["']input["']: """)
_MAX_NOTES = 20
_MAX_ERRORS = 20


@dataclasses.dataclass(slots=True)
class Record:
    """What is known of one request. Times in seconds, `first_s` until the first piece of the answer, `held_s` spent waiting
    for an engine that reloaded or swapped. `message_id` is the answer's for the client, `engine_id` the engine's own."""

    method: str
    route: str = "other"
    started: float = dataclasses.field(default_factory=time.monotonic)
    client: str = ""
    model: str = ""
    is_stream: bool = False
    message_id: str = ""
    engine_id: str = ""
    bytes_in: int = 0
    first_s: float | None = None
    usage: Usage | None = None
    stop: str | None = None
    pings: int = 0
    held_s: float = 0.0
    error: str | None = None
    error_kind: str | None = None
    notes: list[str] = dataclasses.field(default_factory=list)

    def got_first(self) -> None:
        """The first piece of the answer came from the engine."""
        if self.first_s is None:
            self.first_s = time.monotonic() - self.started


class Histogram:
    """Counts of durations up to each bucket's bound."""

    def __init__(self) -> None:
        self._counts = [0] * len(BUCKETS)
        self._count = 0
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """One more duration."""
        self._count += 1
        self._sum += seconds
        for i, bound in enumerate(BUCKETS):
            if seconds <= bound:
                self._counts[i] += 1

    def lines(self, name: str) -> Iterable[str]:
        """In Prometheus' text format."""
        for bound, count in zip(BUCKETS, self._counts, strict=True):
            yield f'{name}_bucket{{le="{bound:g}"}} {count}'
        yield f'{name}_bucket{{le="+Inf"}} {self._count}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {self._count}"


class Stats:
    """All counts of one bridge. `write` takes the finished lines of the trace; `secrets` are never in them."""

    def __init__(self, write: Callable[[str], None], secrets: Iterable[str] = ()) -> None:
        self._write = write
        self.secrets = tuple(secrets)
        self._requests: Counter[tuple[str, int]] = Counter()
        self._errors: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._aborts = self._pings = 0
        self._last_errors: deque[dict[str, Any]] = deque(maxlen=_MAX_ERRORS)
        self.begun = time.monotonic()
        self._first, self._whole = Histogram(), Histogram()

    def finished(self, record: Record, request_id: str, status: int) -> None:
        """Counts a request and writes its line."""
        duration = time.monotonic() - record.started
        self._requests[record.route, status] += 1
        self._pings += record.pings
        self._aborts += status == ABORTED
        if record.error_kind:
            self._errors[record.error_kind] += 1
            self._last_errors.appendleft({"time": _now(), "status": status, "route": record.route, "error": self._clean(record.error or "")})
        if record.usage is not None:
            cached = min(record.usage.cached or 0, record.usage.prompt)
            self._tokens.update(input=record.usage.prompt - cached, cached=cached, output=record.usage.completion)
        if record.first_s is not None:
            self._first.add(record.first_s)
        if record.route not in QUIET:
            self._whole.add(duration)
            self._write(self._line(record, request_id, status, duration))

    def _line(self, record: Record, request_id: str, status: int, duration: float) -> str:
        usage = record.usage
        facts = {
            "time": _now(), "request": request_id, "message": record.message_id or None,
            "engine_request": record.engine_id[:200] if record.engine_id not in ("", request_id) else None,
            "method": record.method, "route": record.route, "status": status, "client": record.client or None,
            "model": record.model or None, "stream": record.is_stream or None, "bytes_in": record.bytes_in, "ms": round(duration * 1000, 1),
            "first_ms": None if record.first_s is None else round(record.first_s * 1000, 1), "pings": record.pings or None,
            "held_ms": round(record.held_s * 1000, 1) or None,
            "input": usage and usage.prompt, "cached": usage and usage.cached, "output": usage and usage.completion, "stop": record.stop,
            "error": record.error and self._clean(record.error), "notes": [self._clean(note) for note in record.notes[:_MAX_NOTES]] or None,
        }  # fmt: skip
        return dumps({key: value for key, value in facts.items() if value is not None}).decode()

    def _clean(self, error: str) -> str:
        # Engines repeat what they do not understand, which is what somebody asked: `..., 'input': [{'role': ...`.
        return redacted(_REPEATED.split(error[:500])[0], self.secrets)

    def totals(self) -> dict[str, Any]:
        """Counts since the start, and the last errors, newest first."""
        read = self._tokens["input"] + self._tokens["cached"]
        return {
            "total": sum(self._requests.values()), "aborts": self._aborts, "output_tokens": self._tokens["output"],
            "cache_share": self._tokens["cached"] / read if read else None, "errors": list(self._last_errors),
        }  # fmt: skip

    def text(self, gauges: Iterable[tuple[str, str, float]]) -> str:
        """The metrics in Prometheus' text format; `gauges` are (name, help, value) of what is so now."""
        lines: list[str] = []
        for name, about, value in gauges:
            lines += [*_head(name, about, "gauge"), f"podwright_bridge_{name} {value:g}"]
        lines += _head("requests_total", "Requests by route and status; 499 is a client that left.", "counter")
        lines += [f'podwright_bridge_requests_total{{route="{r}",status="{s}"}} {n}' for (r, s), n in sorted(self._requests.items())]
        lines += _head("tokens_total", "Tokens of finished answers; cached ones are not in input.", "counter")
        lines += [f'podwright_bridge_tokens_total{{kind="{kind}"}} {self._tokens[kind]}' for kind in ("input", "cached", "output")]
        lines += _head("errors_total", "Errors told to clients, by type.", "counter")
        lines += [f'podwright_bridge_errors_total{{type="{kind}"}} {n}' for kind, n in sorted(self._errors.items())]
        for name, about, number in (("aborts_total", "Clients that left before the answer's end.", self._aborts),
                                    ("pings_total", "Pings sent into silence.", self._pings)):  # fmt: skip
            lines += [*_head(name, about, "counter"), f"podwright_bridge_{name} {number}"]
        lines += _head("first_token_seconds", "From a request to the first piece of its answer.", "histogram")
        lines += self._first.lines("podwright_bridge_first_token_seconds")
        lines += _head("request_seconds", "From a request to the end of its answer.", "histogram")
        lines += self._whole.lines("podwright_bridge_request_seconds")
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP podwright_bridge_{name} {about}", f"# TYPE podwright_bridge_{name} {kind}"]


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
