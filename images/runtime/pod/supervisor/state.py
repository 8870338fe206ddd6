"""What the supervisor knows. Frozen: `decide` answers each event with another one. Times are of a clock that never jumps."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from pod.contract import Engine, Manifest
from pod.levers import Lever

Name = Literal["booting", "serving", "reloading", "swapping", "draining", "degraded", "fatal"]
Kind = Literal["boot", "reload", "swap", "restart", "rollback"]
Step = Literal["pause", "secrets", "argv", "weights", "drain", "stop", "prepare", "start", "prove", "take-back"]

# Which steps make up a change, in order. Everything before `drain` happens while the engine before goes on serving.
STEPS: dict[Kind, tuple[Step, ...]] = {
    "boot": ("secrets", "weights", "stop", "prepare", "start", "prove"),
    "reload": ("secrets", "argv", "weights", "drain", "stop", "prepare", "start", "prove"),
    "swap": ("secrets", "weights", "drain", "stop", "prepare", "start", "prove"),
    "restart": ("stop", "pause", "prepare", "start", "prove"),
    "rollback": ("stop", "secrets", "weights", "prepare", "start", "prove"),
}
GENTLE: frozenset[Step] = frozenset(("secrets", "argv", "weights"))
"""Steps that do not touch a serving engine, so that a change which fails in one of them cost nothing."""


@dataclasses.dataclass(frozen=True)
class Target:
    """What is to be served: one engine of one manifest, as this pod's levers leave it. `sha` is the hash of the manifest as it
    was written, `sequence` the publication's, 0 for the manifest of the image."""

    manifest: Manifest
    engine: str
    sha: str
    sequence: int = 0
    levers: tuple[Lever, ...] = ()

    @property
    def spec(self) -> Engine:
        """The engine's part of the manifest."""
        return next(engine for engine in engines_of(self.manifest) if engine.name == self.engine)


@dataclasses.dataclass(frozen=True)
class Change:
    """A way from one engine to the next, under way. `steps[0]` is being done; `back_to` is what served before. `was_down`: nothing
    served when it began, although clients wait for something that did."""

    id: int
    kind: Kind
    target: Target
    steps: tuple[Step, ...]
    reason: str
    began: float
    step_began: float
    back_to: Target | None = None
    had_served: bool = False
    pause_s: float = 0.0
    was_down: bool = False

    @property
    def step(self) -> Step:
        """What is being done."""
        return self.steps[0]

    @property
    def is_gentle(self) -> bool:
        """Whether the engine before is still serving undisturbed."""
        return self.kind in ("reload", "swap") and self.step in GENTLE and not self.was_down


@dataclasses.dataclass(frozen=True)
class Fatal:
    """Why nothing is served, and what to do about it. `retry_at` is set where waiting may help."""

    code: str
    cause: str
    fix: str
    retry_at: float | None = None
    tries: int = 0


@dataclasses.dataclass(frozen=True)
class Publication:
    """What was published last and is still to be taken over. `when` is the publication's own word on waiting for quiet, `runtime`
    the hash of another runtime that must be here first."""

    target: Target
    when: Literal["now", "idle"]
    runtime: str | None = None
    not_before: float = 0.0


@dataclasses.dataclass(frozen=True)
class Load:
    """Requests in the engine, and since when there are none."""

    running: int = 0
    waiting: int = 0
    quiet_since: float | None = None


@dataclasses.dataclass(frozen=True)
class SwapFailure:
    """The last swap that did not work, for the clients that wait for it."""

    engine: str
    reason: str
    at: float


@dataclasses.dataclass(frozen=True)
class Restart:
    """One restart that nobody asked for, and why. `had_served`: the start that ended had come as far as service."""

    at: float
    reason: str
    had_served: bool = True


@dataclasses.dataclass(frozen=True)
class State:
    """Everything that decides what happens next.

    `target` is in force; `good` the last one that was proved by a generation, `fallback` what was being started when a publication
    took its place before anything had served; `quarantined` maps hashes of manifests that
    failed to why. `serving` is true between a passed proof and the end of that engine. `upgrades` are distributions that were replaced
    in this container and with which no engine has served yet.
    """

    target: Target
    since: float
    name: Name = "booting"
    change: Change | None = None
    serving: bool = False
    engine_up: bool = False
    good: Target | None = None
    good_before: Target | None = None
    fallback: Target | None = None
    fatal: Fatal | None = None
    pending: Publication | None = None
    swaps: tuple[str, ...] = ()
    swap_failure: SwapFailure | None = None
    quarantined: tuple[tuple[str, str], ...] = ()
    restarts: tuple[Restart, ...] = ()
    load: Load = Load()
    phase: str = ""
    detail: str = ""
    next_change: int = 1
    sequence: int = 0
    bridge_pid: int | None = None
    bridge_restarts: tuple[Restart, ...] = ()
    is_preloaded: bool = False
    runtime: str | None = None
    runtime_refused: tuple[str, ...] = ()
    runtime_awaited: str | None = None
    notice: str = ""
    stopping: bool = False
    spend_ended: bool = False
    spend_not_before: float = 0.0
    upgrades: tuple[str, ...] = ()

    def but(self, **changes: Any) -> State:
        """This state with other fields."""
        return dataclasses.replace(self, **changes)

    @property
    def is_quarantined(self) -> dict[str, str]:
        """Hashes of manifests that failed, and why."""
        return dict(self.quarantined)


def owes(state: State) -> bool:
    """Whether a publication that was received is still on its way into force: a supervisor that dies now must be handed it again."""
    change = state.change
    return state.pending is not None or state.runtime_awaited is not None or (change is not None and change.target.sha != state.target.sha)


def engines_of(manifest: Manifest) -> tuple[Engine, ...]:
    """The manifest's own engine and those that take turns with it."""
    return (manifest.engine, *(manifest.swap.others if manifest.swap else ()))


def name_of(state: State) -> Name:
    """The named state that follows from the facts."""
    change = state.change
    if state.stopping:
        return "draining"
    if state.fatal and change is None:
        return "fatal"
    if change is None:
        return "serving" if state.serving else "degraded"
    if change.is_gentle:
        return "serving" if state.serving else "degraded"
    if change.kind == "boot":
        return "booting"
    if change.kind == "restart":
        return "reloading" if change.had_served else "booting"
    if change.kind == "swap":
        return "swapping"
    return "draining" if change.step == "drain" else "reloading"


def holds(state: State) -> bool:
    """Whether clients are asked to wait: something that served is coming back."""
    change = state.change
    if state.stopping or change is None or change.is_gentle:
        return False
    return change.kind != "boot" and (change.had_served or change.kind in ("swap", "reload", "rollback"))
