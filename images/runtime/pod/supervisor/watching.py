"""Eyes: the engine and the bridge are looked at every few seconds, and the watchdog says what that means."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

from pod import processes
from pod.supervisor.bridge import is_healthy
from pod.supervisor.children import Children
from pod.supervisor.events import Requests, Verdict
from pod.supervisor.state import State, Target
from pod.supervisor.steps import Steps
from pod.watchdog import probe
from pod.watchdog.crash_loop import RestartBudget
from pod.watchdog.metrics import Counters
from pod.watchdog.probe import ProbeResult
from pod.watchdog.stall import Boot
from pod.watchdog.verdict import POLL_S, BridgeWatchdog, Observation, Watchdog
from pod.weights.presence import on_disk

# `decide` owns the budget of restarts; the watchdog's own must never stand in its way.
_NO_LIMIT = 1 << 30
# Between two measurements of the weights of an engine that starts: each asks a disk, maybe over the network, for every file.
MEASURE_S = 30.0


class Watching:
    """Looks, and posts what it sees. `boot` tells how far a start is; `last` is what was seen last, for status and journal."""

    def __init__(self, children: Children, steps: Steps, post: Callable[[Any], None], state: Callable[[], State], boot: Callable[[], Boot]) -> None:
        self._children, self._steps, self._post, self._state, self._boot = children, steps, post, state, boot
        settings = state().target.manifest.supervisor.watchdog
        self._engine = Watchdog(settings, RestartBudget(_NO_LIMIT))
        self._bridge = BridgeWatchdog(settings.bridge_failures_before_restart)
        self._proved = ""
        self._probe: asyncio.Task[ProbeResult] | None = None
        self._measured: tuple[str, float, int, int | None] = ("", 0.0, 0, None)
        self.verdict = "booting"
        self.counters: Counters | None = None

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await asyncio.sleep(POLL_S)
            await asyncio.gather(self._look_at_engine(), self._look_at_bridge())

    async def _look_at_engine(self) -> None:
        state, engine = self._state(), self._children.of("engine")
        settings = state.target.manifest.supervisor.watchdog
        self._engine.configure(settings)
        is_ours = engine is not None and (state.serving or (state.change is not None and state.change.step in ("start", "prove")))
        if engine is None or not is_ours:
            self._drop_probe()
            self._engine.observe(_now(), Observation(None, False))
            return
        target = state.change.target if state.change else state.target
        spec = target.spec
        port, health = int(engine.facts.get("port", spec.launch.port)), spec.launch.health
        alive = await asyncio.to_thread(probe.health, port, health.path, probe.HEALTH_TIMEOUT_S, health.status)
        if state.serving:
            self._steps.reader.read()
        start = f"{engine.pid}:{engine.identity.started}"
        # A start counts as service once its proof has passed, and from then on: not sooner, because no verdict may meet a generation
        # that compiles kernels, and not later, because an engine that freezes right after its proof would look like one that boots.
        healthy = state.serving and (alive or start != self._proved)
        self._proved = start if state.serving else ""
        seen = Observation(start, processes.is_alive(engine.identity), healthy,
                           await asyncio.to_thread(probe.metrics, port) if state.serving else None, self._finished_probe(),
                           self._boot() if state.serving else await self._measured_boot(start, target),
                           adopted=engine.process is None)  # fmt: skip
        self.counters = seen.counters
        if state.serving:
            self._post(self._requests(seen.counters))
        self._act(self._engine.observe(_now(), seen), state)

    async def _measured_boot(self, start: str, target: Target) -> Boot:
        """How far a start is, with what of its weights is on disk: an engine whose weights are gone may wait for ever without a word."""
        boot, cache, fetches = self._boot(), self._steps.hub_cache(target.manifest), target.spec.launch.fetch
        if boot.loaded or not fetches:
            return boot
        if self._measured[0] != start or _now() - self._measured[1] >= MEASURE_S:
            self._measured = (start, _now(), *await asyncio.to_thread(on_disk, cache, fetches))
        return dataclasses.replace(boot, present_bytes=self._measured[2], expected_bytes=self._measured[3], folder=str(cache))

    def _requests(self, counters: Counters | None) -> Requests:
        """The clients' load, without the probe of our own that is under way."""
        if counters is None:
            return Requests(0, 0, is_known=False)
        ours = self._probe is not None and not self._probe.done()
        return Requests(max(0, counters.running - ours), counters.waiting)

    def _act(self, verdict: Any, state: State) -> None:
        self.verdict = f"{verdict.state}: {verdict.reason}"
        if verdict.request == "probe" and self._probe is None:
            manifest, spec = state.target.manifest, state.target.spec
            warm_up = manifest.supervisor.warm_up
            self._probe = asyncio.get_running_loop().create_task(asyncio.to_thread(
                probe.generate, spec.launch.port, warm_up.path, spec.served_names[0], warm_up.prompt, manifest.supervisor.watchdog.probe_tokens,
                verdict.probe_timeout_s, self._steps.engine_key(manifest)))  # fmt: skip
        elif verdict.request == "restart-engine" and verdict.state == "stalled":
            self._post(Verdict("restart-engine", verdict.reason))
        elif verdict.request == "report":
            self._post(Verdict("report", verdict.reason))

    def _finished_probe(self) -> ProbeResult | None:
        if self._probe is None or not self._probe.done():
            return None
        result, self._probe = self._probe.result(), None
        return result

    def _drop_probe(self) -> None:
        self._probe = None

    async def _look_at_bridge(self) -> None:
        state = self._state()
        if state.bridge_pid is None or state.stopping:
            return
        verdict = self._bridge.observe(await is_healthy(state.target.manifest.bridge.port))
        if verdict.request == "restart-bridge":
            self._post(Verdict("restart-bridge", verdict.reason))


def _now() -> float:
    return asyncio.get_running_loop().time()
