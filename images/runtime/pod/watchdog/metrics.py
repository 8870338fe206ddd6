"""The engine's Prometheus text -> the few series that only the engine's own loop moves.

vLLM's API process publishes them, but it sets them from what the engine process reports after each step: while the engine stands
still, every one of them stands still too, also the gauges, whatever clients send. Seen on 0.27.1 (docs/decisions/
engine-progress-0.27.1.md): during a chunked prefill only `kv_cache_usage_perc` moves; token counters wait for the first token.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

# Series by the names of vLLM 0.26 to 0.33. Whatever is here proves a finished step when it changes.
_FIELDS = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_usage",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:generation_tokens_total": "generation_tokens",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:prefix_cache_queries_total": "scheduled_tokens",
    "vllm:iteration_tokens_total_count": "iterations",
    "vllm:request_success_total": "finished",
}
_LINE = re.compile(r'^(vllm:[a-z_]+)\{([^}]*)\} ([0-9.eE+-]+)(?: [0-9]+)?$', re.MULTILINE)
_ENGINE = re.compile(r'(?:^|,)engine="([^"]*)"')
_ABORTED = 'finished_reason="abort"'


@dataclasses.dataclass(frozen=True)
class EngineCounters:
    """One engine of a data-parallel group; requests and tokens counted since its start, `kv_usage` between 0 and 1."""

    running: float = 0.0
    waiting: float = 0.0
    kv_usage: float = 0.0
    prompt_tokens: float = 0.0
    generation_tokens: float = 0.0
    preemptions: float = 0.0
    scheduled_tokens: float = 0.0
    iterations: float = 0.0
    finished: float = 0.0
    aborted: float = 0.0


@dataclasses.dataclass(frozen=True)
class Counters:
    """All engines behind one endpoint, by the engine label. Empty where the engine publishes no such series."""

    engines: Mapping[str, EngineCounters] = dataclasses.field(default_factory=dict)

    @property
    def running(self) -> int:
        """Requests in the engines' batches."""
        return int(sum(engine.running for engine in self.engines.values()))

    @property
    def waiting(self) -> int:
        """Requests that wait for a place in a batch."""
        return int(sum(engine.waiting for engine in self.engines.values()))

    @property
    def kv_usage(self) -> float:
        """Share of the fullest KV cache that is in use, 0 to 1."""
        return max((engine.kv_usage for engine in self.engines.values()), default=0.0)

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of requests whose first token came."""
        return int(sum(engine.prompt_tokens for engine in self.engines.values()))

    @property
    def generation_tokens(self) -> int:
        """Tokens generated."""
        return int(sum(engine.generation_tokens for engine in self.engines.values()))

    @property
    def aborted(self) -> int:
        """Requests that ended because their client left."""
        return int(sum(engine.aborted for engine in self.engines.values()))

    def line(self) -> str:
        """The same words as the engine's own log line, for a person."""
        return f"Running: {self.running} reqs, Waiting: {self.waiting} reqs, KV cache usage: {self.kv_usage:.1%}"


def counters(text: str) -> Counters:
    """What `/metrics` says. Unknown series and lines that are no series are passed over; half a text gives what it holds."""
    found: dict[str, dict[str, float]] = {}
    for name, labels, number in _LINE.findall(text):
        field = _FIELDS.get(name)
        if field is None:
            continue
        try:
            value = float(number)
        except ValueError:
            continue
        engine = _ENGINE.search(labels)
        values = found.setdefault(engine.group(1) if engine else "0", {})
        values[field] = values.get(field, 0.0) + value
        if field == "finished" and _ABORTED in labels:
            values["aborted"] = values.get("aborted", 0.0) + value
    return Counters({label: EngineCounters(**values) for label, values in sorted(found.items())})
