"""Replays a history of events against `decide` with a clock that the test moves."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from pod.contract import Manifest, Swap
from pod.supervisor.decide import decide
from pod.supervisor.effects import Effect, Record, RunStep
from pod.supervisor.events import Begin, EngineExited, Event, Published, StepDone, Tick
from pod.supervisor.state import State, Target

from tests.unit.pod.manifests import example_manifest, with_launch

E = TypeVar("E")


def target(manifest: Manifest | None = None, sequence: int = 0, engine: str | None = None) -> Target:
    """A target of a manifest as it is."""
    manifest = manifest or example_manifest()
    return Target(manifest, engine or manifest.engine.name, manifest.sha256(), sequence)


def other_argv(*words: str) -> Manifest:
    """The example with another command line."""
    return with_launch(example_manifest(), argv=("vllm", "serve", "m", *words))


def swap_set() -> Manifest:
    """The example `p` with a second engine `q`, preloaded."""
    manifest = example_manifest()
    q = dataclasses.replace(manifest.engine, name="q", served_names=("q",))
    return example_manifest(swap=Swap((q,), True))


class History:
    """One supervisor's life. `effects` holds what the last event led to, `all` everything."""

    def __init__(self, manifest: Manifest | None = None) -> None:
        self.now = 1000.0
        self.state = State(target=target(manifest), since=self.now)
        self.effects: list[Effect] = []
        self.all: list[Effect] = []
        self.pid = 100

    def happens(self, event: Event) -> History:
        """One event."""
        self.state, self.effects = decide(self.state, event, self.now)
        self.all += self.effects
        return self

    def passes(self, seconds: float) -> History:
        """Time passes, and a tick tells."""
        self.now += seconds
        return self.happens(Tick())

    def begins(self, **facts: Any) -> History:
        """The supervisor starts."""
        return self.happens(Begin(**facts))

    def done(self, *steps: str, seconds: float = 1.0) -> History:
        """The steps under way end well, one after the other; they must be the named ones."""
        for step in steps:
            change = self.state.change
            assert change is not None and change.step == step, f"{change and change.step} is under way, not {step}"
            self.now += seconds
            self.happens(StepDone(change.id, change.step, True))
        return self

    def fails(self, step: str, kind: str, detail: str = "because") -> History:
        """The step under way fails."""
        change = self.state.change
        assert change is not None and change.step == step, f"{change and change.step} is under way, not {step}"
        return self.happens(StepDone(change.id, change.step, False, kind, detail))

    def serves(self) -> History:
        """A first start, up to service."""
        self.begins().done("secrets", "weights", "stop", "prepare", "start", "prove")
        assert self.state.name == "serving"
        return self

    def engine_dies(self, code: int | None = -9, **facts: Any) -> History:
        """The engine's process ends."""
        return self.happens(EngineExited(self.pid, code, **facts))

    def publishes(self, manifest: Manifest, sequence: int = 1, when: Any = "now", runtime: str | None = None) -> History:
        """A sound publication arrives."""
        return self.happens(Published(target(manifest, sequence), sequence, when, runtime))

    def did(self, kind: type[E]) -> list[E]:
        """Effects of a kind that the last event led to."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def ever(self, kind: type[E]) -> list[E]:
        """Effects of a kind since the beginning."""
        return [effect for effect in self.all if isinstance(effect, kind)]

    @property
    def step(self) -> str | None:
        """The step under way."""
        return self.state.change.step if self.state.change else None

    @property
    def journal(self) -> list[str]:
        """Everything that was recorded."""
        return [effect.message for effect in self.ever(Record)]

    @property
    def steps_begun(self) -> list[str]:
        """All steps, in order."""
        return [effect.step for effect in self.ever(RunStep)]
