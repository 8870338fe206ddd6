"""The live page at /console: what happens now, for a person. The page itself holds no data; it asks for them with the key."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pod.bridge.live import Live
from pod.bridge.stats import Stats

PAGE = Path(__file__).with_name("console.html").read_bytes()
# No other site can frame the page, and nothing but its own script talks to anybody: the key stays here.
PAGE_HEADERS = {
    "content-type": "text/html; charset=utf-8", "cache-control": "no-store", "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                               "form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
}  # fmt: skip
# Metrics of vLLM 0.27.1, and the older name of the second.
_ENGINE = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_use": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
_SAMPLE = re.compile(r"^(vllm:[a-z_]+)(?:\{[^}\n]*\})? (\S+)$", re.MULTILINE)


def data(stats: Stats, streams: Iterable[Live], *, mode: str, models: list[str], requests: int, engine: bytes | None) -> dict[str, Any]:
    """What the page shows. `requests` are those under way; `engine` its metrics, None where it does not answer."""
    shown = [live.snapshot() for live in streams]
    totals = stats.totals()
    return {
        "mode": mode, "models": models, "uptime_s": time.monotonic() - stats.begun, "requests": requests, "streams": shown,
        "engine": None if engine is None else engine_figures(engine.decode("utf-8", "replace")), **totals,
        "output_tokens": totals["output_tokens"] + sum(one["tokens"] for one in shown),
    }  # fmt: skip


def engine_figures(text: str) -> dict[str, float]:
    """Running and waiting requests and the share of the KV cache in use, from an engine's metrics; summed, or the largest share."""
    samples: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        try:
            samples.setdefault(name, []).append(float(value))
        except ValueError:
            continue
    found: dict[str, float] = {}
    for figure, names in _ENGINE.items():
        values = next((samples[name] for name in names if name in samples), None)
        if values:
            found[figure] = max(values) if figure == "kv_use" else sum(values)
    return found
