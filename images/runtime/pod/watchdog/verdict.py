"""Verdicts on the engine and on the bridge: pure functions of observations, with the caller's monotonic clock.

What proves life is the engine's own counters moving, or a real generation that was answered; never an HTTP 200. Requests that run
are their own probe, so a generation is asked for only when nothing moves. Each rule has its incident in
tests/unit/pod/watchdog/test_histories.py. Detecting and acting are two jobs: a verdict only asks.

Observe every POLL_S seconds. Each verdict's `request` is made once; a restart that did not come is asked for again after REASK_S.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from pod.contract import Watchdog as Settings
from pod.watchdog.crash_loop import RestartBudget
from pod.watchdog.metrics import Counters, EngineCounters
from pod.watchdog.probe import ProbeResult
from pod.watchdog.stall import Boot, BootStall

State = Literal["idle", "busy", "stalled", "dead", "booting", "boot-stalled", "crash-loop", "warming"]
Request = Literal["probe", "restart-engine", "restart-bridge", "report"]

# The pace of observations that these rules are made for: a stall is then seen at most this late.
POLL_S = 5.0
# The most that one observation may add to any wait. A supervisor that was itself stopped, or a clock that jumps, must not
# turn into minutes of patience that nobody watched.
MAX_STEP_S = 15.0
# What is kept back from the patience of an idle engine's probes, for the pace of observations: with a probe every 30 s and 90 s of
# patience, the last of two misses is then seen within two minutes of the last sign of life.
PROBE_MARGIN_S = 10.0
# The least time a probe gets. A healthy idle engine needs a second or two.
MIN_PROBE_S = 20.0
# Requests are in the batch and nothing moved for this share of the patience: ask with a probe whether that is so, because an answer
# also brings gauges up to date that a missed step left behind.
DOUBT = 1 / 3
# Bounds how long a requested restart may take to begin before it is asked for again.
REASK_S = 60.0


@dataclasses.dataclass(frozen=True)
class Observation:
    """What was seen since the last one.

    `start` names one start of the engine process (its pid and start time); None while there is none yet. `health` is None when
    not asked, `counters` None when /metrics gave no answer, `probe` the result of a requested probe that has just ended.
    When the supervisor ends an engine on purpose it observes with `start` None, so that no verdict asks for what is under way.
    `adopted`: the process served before this watchdog existed. `ended` says how the process ended, such as `exit code 1`.
    """

    start: str | None
    alive: bool
    health: bool | None = None
    counters: Counters | None = None
    probe: ProbeResult | None = None
    boot: Boot = dataclasses.field(default_factory=Boot)
    adopted: bool = False
    ended: str = ""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`reason` is a sentence for journal and status. `probe_timeout_s` goes with a requested probe; `wait_s` is the pause before a
    requested restart."""

    state: State
    reason: str
    request: Request | None = None
    probe_timeout_s: float = 0.0
    wait_s: float = 0.0


class Watchdog:
    """The engine's watchdog. One object outlives all starts of the engine; `budget.reset()` when a new manifest is in force."""

    def __init__(self, settings: Settings, budget: RestartBudget | None = None) -> None:
        self._settings = settings
        self.budget = budget or RestartBudget(settings.crash_loop_restarts)
        self._clock = 0.0
        self._seen_at: float | None = None
        self._begin(None)

    def configure(self, settings: Settings) -> None:
        """Take over other settings from now on; nothing that was seen is forgotten."""
        self._settings = settings

    def observe(self, now: float, seen: Observation) -> Verdict:
        """The verdict on the engine. `now` is monotonic seconds; a step back counts as none, a leap as MAX_STEP_S."""
        step = min(max(now - self._seen_at, 0.0), MAX_STEP_S) if self._seen_at is not None else 0.0
        self._seen_at = now
        self._clock += step
        if seen.start != self._start:
            self._begin(seen.start)
        if seen.start is not None and not seen.alive:
            return self._dead(seen)
        if not self._served:
            if not seen.health:
                return self._booting(step, seen)
            self._first_service(seen)
        return self._serving(step, seen)

    def _begin(self, start: str | None) -> None:
        self._start = start
        self._served = False
        self._grace = self._settings.grace_probes
        self._boot = BootStall()
        self._last: dict[str, EngineCounters] = {}
        self._still: dict[str, float] = {}
        self._silent_s = 0.0
        self._missed = 0
        self._life_at = self._clock
        self._probe_until: float | None = None
        self._probe_moved = False
        self._refused = ""
        self._asked: tuple[State, float] | None = None
        self._reported = ""

    def _first_service(self, seen: Observation) -> None:
        self._served = True
        self.budget.served()
        self._life_at = self._clock
        if seen.adopted:
            self._grace = 0

    def _booting(self, step: float, seen: Observation) -> Verdict:
        diagnosis = self._boot.observe(step, seen.boot, self._settings.boot_stall_s)
        if diagnosis:
            return self._report_once("boot-stalled", diagnosis)
        return Verdict("booting", seen.boot.line() or "the engine process starts")

    def _dead(self, seen: Observation) -> Verdict:
        return self._restart("dead", f"the engine process ended ({seen.ended or 'cause unknown'})")

    def _restart(self, state: State, why: str) -> Verdict:
        if self._asked is not None and self._asked[0] == state and self._clock - self._asked[1] < REASK_S:
            return Verdict("crash-loop" if self.budget.open_because else state, self.budget.open_because or why)
        # A start is charged once: a wedge that dies while its restart is on the way needs no second one.
        decision = self.budget.ask(self._clock, self._served, why) if self._asked is None else None
        self._asked = (state, self._clock)
        if self.budget.open_because:
            return self._report_once("crash-loop", self.budget.open_because)
        return Verdict(state, why, "restart-engine", wait_s=decision.wait_s if decision else 0.0)

    def _report_once(self, state: State, text: str) -> Verdict:
        is_new, self._reported = text != self._reported, text
        return Verdict(state, text, "report" if is_new else None)

    def _serving(self, step: float, seen: Observation) -> Verdict:
        moved = self._note_movement(step, seen)
        silent = seen.health is False
        self._silent_s = self._silent_s + step if silent and not moved else 0.0
        self._note_probe(seen.probe)
        if moved:
            self._life_at, self._missed = self._clock, 0
        wedge = self._wedge(silent)
        if wedge and self._grace > 0:
            self._grace -= 1
            self._forget_stillness()
            return Verdict("warming", f"{wedge}; not counted so soon after a start, {self._grace} more will not be")
        if wedge:
            verdict = self._restart("stalled", wedge)
            # As long as nobody acts, a generation that is answered takes the verdict back.
            return verdict if verdict.request else self._probing(verdict.state, verdict.reason)
        self._asked = None
        return self._at_work(silent, seen.counters)

    def _note_movement(self, step: float, seen: Observation) -> bool:
        engines = seen.counters.engines if seen.counters else {}
        if self._probe_until is None:  # what clients were answered warms an engine as a probe does: one that is never idle is never probed
            ended = sum(now.finished - now.aborted - (was.finished - was.aborted) for label, now in engines.items() if (was := self._last.get(label)))
            self._grace -= min(self._grace, max(0, int(ended)))
        moved = seen.probe is not None and seen.probe.ok
        for label, now in engines.items():
            before = self._last.get(label)
            if before is None or before != now:
                self._still[label], moved = 0.0, True
            elif now.running + now.waiting > 0:
                self._still[label] = self._still.get(label, 0.0) + step
            else:
                self._still[label] = 0.0
        self._last = dict(engines) or self._last
        self._probe_moved = self._probe_moved or moved
        return moved

    def _note_probe(self, probe: ProbeResult | None) -> None:
        if probe is None:
            return
        moved, self._probe_until, self._probe_moved = self._probe_moved, None, False
        self._refused = f"HTTP {probe.status}" if _is_our_mistake(probe) else ""
        if self._refused:
            self._life_at = self._clock
        elif self._grace > 0:
            self._grace -= 1
        elif not probe.ok and not moved:
            self._missed += 1

    def _forget_stillness(self) -> None:
        self._still = dict.fromkeys(self._still, 0.0)
        self._silent_s, self._missed, self._life_at = 0.0, 0, self._clock

    def _wedge(self, silent: bool) -> str:
        patience = self._settings.probe_timeout_s
        still = max(self._still.values(), default=0.0)
        if silent and self._silent_s >= patience:
            return f"the engine process lives but has not answered for {self._silent_s:.0f} s"
        if still >= patience:
            return f"requests are in the engine and none of its counters moved for {still:.0f} s"
        if self._missed >= self._misses_needed():
            return f"{self._missed} generations in a row were not answered while HTTP answers"
        return ""

    def _misses_needed(self) -> int:
        # An engine without counters is judged by generations alone, which a long prefill starves: one more must fail, so that
        # at 90 s each a prefill of 200 s is outlived.
        return max(2, self._settings.failures_before_restart) + (0 if self._last else 1)

    def _at_work(self, silent: bool, counters: Counters | None) -> Verdict:
        still = max(self._still.values(), default=0.0)
        busy = counters is not None and counters.running + counters.waiting > 0
        if silent:
            limit = f"patience is {self._settings.probe_timeout_s:.0f} s"
            return Verdict("busy", f"no answer from the engine for {self._silent_s:.0f} s, {limit}")
        if busy and counters is not None:
            doubtful = still >= DOUBT * self._settings.probe_timeout_s
            text = f"{counters.line()}; nothing moved for {still:.0f} s" if doubtful else counters.line()
            return self._probing("busy", text) if doubtful else Verdict("busy", text)
        if self._refused and self._clock - self._life_at < self._settings.probe_interval_s:
            return self._report_once("idle", f"the engine refuses the watchdog's generation with {self._refused}: the key or the model's "
                                             f"name that it asks with is wrong, and a wedge of an idle engine would go unseen")
        if self._grace > 0:
            return self._probing("warming", f"{self._grace} generations until misses count")
        if self._missed or self._clock - self._life_at >= self._settings.probe_interval_s:
            return self._probing("idle", f"{self._missed} generations missed" if self._missed else "idle: asking for a generation")
        return Verdict("idle", "no request, and the last sign of life is fresh")

    def _probing(self, state: State, reason: str) -> Verdict:
        if self._probe_until is not None and self._clock < self._probe_until:
            return Verdict(state, reason)
        timeout_s = self._probe_timeout_s()
        self._probe_until, self._probe_moved = self._clock + timeout_s + REASK_S, False
        return Verdict(state, reason, "probe", probe_timeout_s=timeout_s)

    def _probe_timeout_s(self) -> float:
        patience = self._settings.probe_timeout_s
        if self._grace > 0 or not self._last:
            return patience
        left_s = self._settings.probe_interval_s + patience - PROBE_MARGIN_S - (self._clock - self._life_at)
        return min(patience, max(MIN_PROBE_S, left_s / max(1, self._misses_needed() - self._missed)))


def _is_our_mistake(probe: ProbeResult) -> bool:
    """A refusal of the question (a wrong key or name) says nothing about the engine."""
    return probe.status is not None and 400 <= probe.status < 500


class BridgeWatchdog:
    """The bridge's own watchdog: as many failed health checks in a row as the settings say restart the bridge, and it alone."""

    def __init__(self, failures_before_restart: int) -> None:
        self._limit = max(2, failures_before_restart)
        self._failed = 0

    def observe(self, healthy: bool) -> Verdict:
        """The verdict after one health check. A restart is asked for once per row of failures, then the count starts anew."""
        if healthy:
            self._failed = 0
            return Verdict("idle", "the bridge answers")
        self._failed += 1
        if self._failed < self._limit:
            return Verdict("busy", f"the bridge missed {self._failed} of {self._limit} health checks")
        self._failed = 0
        return Verdict("stalled", f"the bridge missed {self._limit} health checks in a row", "restart-bridge")
