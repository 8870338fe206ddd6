"""A pod's way from its creation to service, read from what can be seen from outside. Pure: observations in, a phase or a trouble out.

| phase | how it is known |
|---|---|
| placed | the provider says PROVISIONING |
| pulling | STARTING, or lines of the system log about layers |
| booting | the container runs; lines of the bootstrap and of the runtime's journal |
| loading | lines of the engine about weights, compilation and graphs |
| serving | the endpoint's readiness question is answered with yes |
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import re
from collections.abc import Iterable

from compiler.deploy import troubles
from compiler.deploy.answers import text
from compiler.deploy.provider import CudaPin, LogLine, Pod, PodStatus
from compiler.deploy.troubles import PodTrouble, TroubleKind
from compiler.diagnostics import brief, printable
from compiler.secrets import masked

# A host is found within seconds; ten minutes of PROVISIONING were only seen on pods that never came.
LONGEST_PROVISIONING_S = 600.0
# 18 GB in one layer took nine to ten minutes on a cold host; a slow registry gets four times that.
LONGEST_PULL_S = 2400.0
# From the creation to service, whatever the log says: the slowest documented way (installation at boot, download, compilation) takes an hour.
LONGEST_START_S = 7200.0
# A pull that fails is tried again by the host; the third failure is no hiccup.
PULL_FAILURES = 3
# The first start of a container is one; a host may repeat it once after a hiccup of its own.
CONTAINER_STARTS = 4
# What the explainer reads when the pod fails; a traceback through an engine's processes has some two hundred lines.
KEPT_LINES = 500

_SYSTEM: tuple[tuple[TroubleKind, re.Pattern[str]], ...] = (
    (troubles.CUDA_MISMATCH, re.compile(r"CUDA_VERSION_MISMATCH|unsatisfied condition: cuda", re.I)),
    (
        troubles.PULL_DENIED,
        re.compile(r"IMAGE_AUTH_ERROR|pull access denied|unauthorized|authentication required|no basic auth credentials|denied: ", re.I),
    ),
    (
        troubles.PULL_FAILED,
        re.compile(
            r"IMAGE_PULL_ERROR|error pulling image|failed to pull|manifest unknown|manifest for .* not found|toomanyrequests|no matching manifest",
            re.I,
        ),
    ),
)
_CONTAINER: tuple[tuple[TroubleKind, re.Pattern[str]], ...] = (
    (
        troubles.SICK_HOST,
        re.compile(
            r"CUDA error: unspecified launch failure|No CUDA GPUs are available|adjusted local rank \d+ is out of bounds|sick host", re.I
        ),
    ),
    (troubles.CUDA_MISMATCH, re.compile(r"NVIDIA driver on your system is too old|offers CUDA \S+, the engine needs CUDA", re.I)),
)
_PULL = re.compile(r"\bpull|download|extract|layer", re.I)
_START = re.compile(r"\bstart container", re.I)
_BOOTSTRAP = re.compile(r"\[bootstrap\] (?:\d\d:\d\d:\d\d )?(FATAL |FIX   |WARNING )?(.*)")
# A line of the runtime's journal as it stands in the container's log: time, kind, message, and facts in brackets.
_JOURNAL = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z ([a-z-]+): (.*?)(?:  \[(.*)\])?")
_FACT_FIX = re.compile(r'\bfix=("(?:[^"\\]|\\.)*"|\S+)')
# A fatal state that the runtime leaves by itself, for instance when the Hub is back.
_FACT_RETRY = re.compile(r"\bretry_s=\d")
# Kinds of the journal that speak of the engine; the others come from the start before it.
_ENGINE_KINDS = frozenset({"engine", "phase", "change"})
_LOADING = re.compile(
    r"loading (?:safetensors|weights|model)|starting to load model|load_weights|checkpoint shards|"
    r"torch\.compile|compil(?:ing|ation)|captur(?:ing|e) .*graph|KV cache|profil",
    re.I,
)


class Phase(enum.StrEnum):
    """How far a pod is."""

    PLACED = "placed"
    PULLING = "pulling"
    BOOTING = "booting"
    LOADING = "loading"
    SERVING = "serving"

    @property
    def rank(self) -> int:
        """0 for the first."""
        return list(Phase).index(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Ready:
    """The answer to the endpoint's readiness question. `reason` is its own word for why not."""

    serving: bool
    reason: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """One look at a pod: its record (None: it is gone), lines that are new since the last look, and what the endpoint answered."""

    pod: Pod | None
    lines: tuple[LogLine, ...] = ()
    ready: Ready | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What one look told: the phase, since when, and a line for the display."""

    phase: Phase
    since: float
    detail: str


class Watch:
    """Follows one pod. `gpus` is how many it must have, `stall_s` how long a start may say nothing."""

    def __init__(self, profile: str, pod_id: str, *, pin: CudaPin, gpus: int, stall_s: float, began: float) -> None:
        self.profile, self.pod_id, self._pin, self._gpus, self._stall_s = profile, pod_id, pin, gpus, stall_s
        self.phase, self.since, self.detail = Phase.PLACED, began, ""
        self.passed: dict[Phase, float] = {Phase.PLACED: began}
        self._began = self._moved = began
        self._lines: collections.deque[str] = collections.deque(maxlen=KEPT_LINES)
        self._pull_failures = self._starts = 0
        self._fatal: str | None = None
        self._fix = ""

    def feed(self, now: float, seen: Seen) -> Step:
        """Take one look in. Raises PodTrouble as soon as it is certain that the pod will not serve."""
        if seen.pod is None:
            raise self._trouble(troubles.GONE, f"pod {self.pod_id} does not exist any more")
        self._check_host(seen.pod)
        if seen.ready is not None and seen.ready.serving:
            self._lines.extend(_shown(line) for line in seen.lines)  # Whatever the log tells of, it is over.
        else:
            self._read(now, seen.lines)
            self._status(now, seen.pod)
        if seen.ready is not None:
            self._endpoint(now, seen.ready)
        if self.phase is not Phase.SERVING:
            self._check_time(now, seen.pod)
        return Step(self.phase, self.since, self.detail)

    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the log."""
        return tuple(self._lines)

    def _check_host(self, pod: Pod) -> None:
        if pod.cuda is not None and not self._pin.admits(pod.cuda):
            raise self._trouble(
                troubles.CUDA_MISMATCH, f"pod {pod.id} landed on a host of CUDA {pod.cuda}; the profile asks for {self._pin}"
            )
        if pod.status is PodStatus.RUNNING and pod.gpu_count is not None and pod.gpu_count != self._gpus:
            raise self._trouble(troubles.NO_GPU, f"pod {pod.id} has {pod.gpu_count} GPUs instead of {self._gpus}")

    def _read(self, now: float, lines: tuple[LogLine, ...]) -> None:
        for line in lines:
            said = _shown(line)
            if not said:
                continue
            self._lines.append(said)
            self._moved = now
            if line.source == "system":
                self._system(now, said)
            else:
                self._container(now, said)
        if self._fatal is not None and (self._fix or not lines):
            raise self._fatal_trouble()

    def _system(self, now: float, said: str) -> None:
        kind = _matching(_SYSTEM, said)
        if kind is troubles.PULL_FAILED:
            self._pull_failures += 1
        if kind is not None and (kind is not troubles.PULL_FAILED or self._pull_failures >= PULL_FAILURES):
            raise self._trouble(kind, said)
        if _START.search(said):
            self._starts += 1
            if self._starts >= CONTAINER_STARTS:
                raise self._trouble(troubles.RESTART_LOOP, f"the container of pod {self.pod_id} was started {self._starts} times")
            self._reach(now, Phase.BOOTING, said)
        elif _PULL.search(said):
            self._reach(now, Phase.PULLING, said)

    def _container(self, now: float, said: str) -> None:
        boot = _BOOTSTRAP.search(said)
        if boot and boot[1] == "FIX   ":
            self._fix = boot[2]
            return
        entry = _JOURNAL.fullmatch(said)
        fatal = (
            boot[2]
            if boot and boot[1] == "FATAL "
            else entry[2]
            if entry and entry[1] == "fatal" and not _FACT_RETRY.search(entry[3] or "")
            else None
        )
        if fatal is not None:
            self._fatal, self._fix = fatal, _fix_of(entry[3] or "") if entry else self._fix
            return
        kind = _matching(_CONTAINER, said)
        if kind is not None and self._fatal is None:
            raise self._trouble(kind, said)
        loads = entry[1] in _ENGINE_KINDS if entry else not boot and _LOADING.search(said) is not None
        self._reach(now, Phase.LOADING if loads else Phase.BOOTING, boot[2] if boot else entry[2] if entry else said)

    def _status(self, now: float, pod: Pod) -> None:
        if pod.status in (PodStatus.EXITED, PodStatus.ERROR):
            if self._fatal is not None:
                raise self._fatal_trouble()
            if self._pull_failures:
                raise self._trouble(troubles.PULL_FAILED, f"the image of pod {pod.id} cannot be pulled")
            word = (
                "its container ended" if pod.status is PodStatus.EXITED else "its container is in an error that the provider does not end"
            )
            raise self._trouble(troubles.EXITED, f"pod {pod.id} is {pod.status} during its start: {word}")
        if pod.status is PodStatus.STARTING:
            self._reach(now, Phase.PULLING, "")
        elif pod.status is PodStatus.RUNNING:
            self._reach(now, Phase.BOOTING, "")

    def _endpoint(self, now: float, ready: Ready) -> None:
        if ready.serving:
            self._reach(now, Phase.SERVING, "ready")
        elif ready.reason and ready.reason != self.detail:
            self._moved = now
            self.detail = printable(brief(masked(ready.reason), 400))

    def _check_time(self, now: float, pod: Pod) -> None:
        waited = now - self._began
        if pod.status is PodStatus.PROVISIONING and waited > LONGEST_PROVISIONING_S:
            raise self._trouble(troubles.STUCK, f"pod {pod.id} has been PROVISIONING for {waited / 60:.0f} minutes")
        if self.phase is Phase.PULLING and now - self.since > LONGEST_PULL_S:
            raise self._trouble(troubles.STUCK, f"pod {pod.id} has been pulling its image for {(now - self.since) / 60:.0f} minutes")
        if waited > LONGEST_START_S:
            raise self._trouble(
                troubles.STALLED,
                f"pod {pod.id} does not serve after {waited / 60:.0f} minutes; it is {self.phase}: {self.detail or 'no detail'}",
            )
        if self.phase.rank >= Phase.BOOTING.rank and now - self._moved > self._stall_s:
            raise self._trouble(
                troubles.STALLED,
                f"pod {pod.id} has said nothing new for {(now - self._moved) / 60:.0f} minutes; it is {self.phase}: {self.detail or 'no detail'}",
            )

    def _reach(self, now: float, phase: Phase, detail: str) -> None:
        """Phases only go forward: a line about layers after the start of the engine is a line about something else."""
        if phase.rank > self.phase.rank:
            self.phase, self.since, self._moved, self.detail = phase, now, now, ""
            self.passed.setdefault(phase, now)
        if detail:
            self.detail = detail

    def _fatal_trouble(self) -> PodTrouble:
        words = self._fatal or ""
        kind = _matching(_CONTAINER, words)
        if kind is None and "delete this pod and create" in self._fix:
            kind = troubles.SICK_HOST
        return self._trouble(kind or troubles.BOOT_FAILED, f"pod {self.pod_id} cannot start: {words}", self._fix)

    def _trouble(self, kind: TroubleKind, what: str, fix: str = "") -> PodTrouble:
        return PodTrouble(kind, what, profile=self.profile, pod_id=self.pod_id, fix=fix, lines=self.last_lines())


def _shown(line: LogLine) -> str:
    return printable(brief(masked(line.text.rstrip()), 400))


def _matching(table: Iterable[tuple[TroubleKind, re.Pattern[str]]], said: str) -> TroubleKind | None:
    return next((kind for kind, pattern in table if pattern.search(said)), None)


def _fix_of(facts: str) -> str:
    """The cure in the facts of a journal line."""
    found = _FACT_FIX.search(facts)
    if found is None:
        return ""
    try:
        return text(json.loads(found[1])) or ""
    except ValueError:
        return found[1]
