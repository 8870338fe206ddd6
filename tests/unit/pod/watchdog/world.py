"""A pod played in memory: an engine as vLLM 0.27.1 shows itself (docs/decisions/engine-progress-0.27.1.md), a supervisor that observes
and asks, and the watchdogs of the logbook to compare with. Time is a number; a whole night takes milliseconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pod.contract import Watchdog as Settings
from pod.watchdog.metrics import Counters, EngineCounters
from pod.watchdog.probe import ProbeResult
from pod.watchdog.stall import Boot
from pod.watchdog.verdict import POLL_S, Observation, Verdict, Watchdog

DEFAULTS = Settings(probe_interval_s=30.0, probe_timeout_s=90.0, probe_tokens=24, failures_before_restart=2, grace_probes=3,
                    boot_stall_s=1800.0, crash_loop_restarts=3, bridge_failures_before_restart=2)
STEP_S = 1.0
CHUNK_S = 4.0  # one chunk of a long prefill on the dense model of 2026: 8192 tokens at 1,812 tokens/s


@dataclasses.dataclass
class Job:
    """A request: seconds of prefill, then one token a tenth of a second."""

    prefill_s: float
    decode_s: float
    is_probe: bool = False
    done_s: float = 0.0


class Engine:
    """One start of an engine. `boots_in` seconds until HTTP answers, `frozen_at` and `mute_at` as ages, `warm_up` as slow first answers."""

    def __init__(self, name: str, boots_in: float = 0.0, frozen_at: float = 1e12, mute_at: float = 1e12, dies_at: float = 1e12,
                 warm_up: tuple[float, ...] = (), boot: Callable[[float], Boot] = lambda age: Boot("load", int(age))) -> None:
        self.name, self.boots_in, self.frozen_at, self.mute_at, self.dies_at = name, boots_in, frozen_at, mute_at, dies_at
        self.warm_up, self.boot_at = list(warm_up), boot
        self.age = 0.0
        self.jobs: list[Job] = []
        self.published = EngineCounters()
        self._step_s = 0.0
        self._live = EngineCounters()

    @property
    def alive(self) -> bool:
        return self.age < self.dies_at

    @property
    def answers(self) -> bool:
        return self.alive and self.boots_in <= self.age < self.mute_at

    def tick(self) -> None:
        self.age += STEP_S
        if not self.answers or self.age >= self.frozen_at:
            return  # counters keep their last values, whatever is asked of the API
        first = self.jobs[0] if self.jobs else None
        if first is None:
            self.published = dataclasses.replace(self._live, running=0, waiting=0, kv_usage=0)
            return
        first.done_s += STEP_S
        self._step_s += STEP_S
        in_prefill = first.done_s <= first.prefill_s
        if in_prefill and self._step_s < CHUNK_S and first.done_s < first.prefill_s:
            return
        self._step_s = 0.0
        fresh = 0 if in_prefill else 10
        self._live = dataclasses.replace(self._live, generation_tokens=self._live.generation_tokens + fresh,
                                         iterations=self._live.iterations + (0 if in_prefill else 10))
        self.published = dataclasses.replace(self._live, running=1, waiting=len(self.jobs) - 1, kv_usage=first.done_s / 10000)
        if first.done_s >= first.prefill_s + first.decode_s:
            self.jobs.pop(0)

    def counters(self) -> Counters | None:
        return Counters({"0": self.published}) if self.answers else None


class Pod:
    """Runs a watchdog over starts made by `next_engine(n)`, and remembers every request that it made."""

    def __init__(self, next_engine: Callable[[int], Engine], watchdog: Watchdog | None = None, offset: float = 0.0) -> None:
        self.watchdog = watchdog or Watchdog(DEFAULTS)
        self.next_engine = next_engine
        self.now, self.started = 1000.0, 0
        self.engine = next_engine(0)
        self.log: list[tuple[float, Verdict]] = []
        self.clock: Callable[[float], float] = lambda now: now
        self.probe: tuple[Job, float] | None = None
        self._ready_probe: ProbeResult | None = None
        self._next_look = self.now + offset
        self._start_at: float | None = None

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += STEP_S
            self.engine.tick()
            self._follow_probe()
            if self._start_at is not None and self.now >= self._start_at:
                self.started += 1
                self.engine, self._start_at, self.probe = self.next_engine(self.started), None, None
            if self.now >= self._next_look:
                self._next_look = self.now + POLL_S
                self._look()

    def _look(self) -> None:
        engine = self.engine
        probe, self._ready_probe = self._ready_probe, None
        verdict = self.watchdog.observe(self.clock(self.now), Observation(
            start=engine.name, alive=engine.alive, health=engine.answers, counters=engine.counters(), probe=probe,
            boot=engine.boot_at(engine.age), ended="" if engine.alive else "exit code 0"))
        self.log.append((self.now, verdict))
        if verdict.request == "probe":
            job = Job(self.engine.warm_up.pop(0) if self.engine.warm_up else 0.0, 2.0, is_probe=True)
            self.engine.jobs.append(job)
            self.probe = (job, self.now + verdict.probe_timeout_s)
        if verdict.request == "restart-engine":
            self._start_at = self.now + max(STEP_S, verdict.wait_s)

    def _follow_probe(self) -> None:
        if self.probe is None:
            return
        job, deadline = self.probe
        if job not in self.engine.jobs and self.engine.answers:
            self.probe, self._ready_probe = None, ProbeResult(True, "ok", 1.0, "", 200)
        elif self.now >= deadline:
            self.probe, self._ready_probe = None, ProbeResult(False, "", 1.0, "no answer in time")
            if job in self.engine.jobs and self.engine.age < self.engine.frozen_at:
                self.engine.jobs.remove(job)

    def requested(self, request: str) -> list[float]:
        return [at for at, verdict in self.log if verdict.request == request]

    @property
    def states(self) -> list[str]:
        """The states in their order, repeats left out."""
        found: list[str] = []
        for _, verdict in self.log:
            if not found or found[-1] != verdict.state:
                found.append(verdict.state)
        return found

    @property
    def last(self) -> Verdict:
        return self.log[-1][1]


@dataclasses.dataclass
class OldWatchdog:
    """A version of the logbook as far as it is described: what it would have done, not how it was written.

    v1 looks at HTTP only, for 15 minutes. v2 adds a generation of 40 s, two in a row. v4 reads the restart counter while booting. v5
    knows boot stalls and leaves out three probes after a boot; its last tuning asks for 90 s.
    """

    version: int
    timeout_s: float = 40.0
    grace: int = 0
    acts: list[tuple[str, float]] = dataclasses.field(default_factory=list)
    _missed: int = 0
    _silent_since: float | None = None

    def watch(self, engine: Engine, seconds: float, start_counter: Callable[[float], int] = lambda now: 0) -> None:
        """Looks every 30 s at one start, or at several that all look like `starting`."""
        job: Job | None = None
        asked = -30.0
        while engine.age < seconds and not self.acts:
            engine.tick()
            now = engine.age
            if engine.age < engine.boots_in:
                self._boot(now, start_counter(now), engine)
                continue
            self._http(now, engine.answers)
            if self.version == 1 or not engine.answers:
                continue
            if job is None and now >= asked + 30.0:
                job, asked = Job(engine.warm_up.pop(0) if engine.warm_up else 0.0, 2.0, is_probe=True), now
                engine.jobs.append(job)
            elif job is not None and job not in engine.jobs:
                job, self._missed, self.grace = None, 0, max(0, self.grace - 1)
            elif job is not None and now >= asked + self.timeout_s:
                self._missed, self.grace = self._missed + (0 if self.grace else 1), max(0, self.grace - 1)
                engine.jobs.remove(job)
                job, asked = None, now - 30.0
                if self._missed >= 2:
                    self.acts.append(("restart", now))

    def _http(self, now: float, answers: bool) -> None:
        self._silent_since = None if answers else self._silent_since if self._silent_since is not None else now
        if self._silent_since is not None and now - self._silent_since >= 900.0:
            self.acts.append(("restart", now))

    def _boot(self, now: float, counter: int, engine: Engine) -> None:
        if self.version >= 4 and counter >= 3:
            self.acts.append(("signal crash loop", now))
        if self.version >= 5 and now >= 1800.0 and not engine.boot_at(now).loaded:
            self.acts.append(("signal stall", now))
