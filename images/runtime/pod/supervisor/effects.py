"""What the supervisor can do to the world: commands as data, and the one interface that carries them out."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

from pod.supervisor.state import Step, Target


@dataclasses.dataclass(frozen=True)
class RunStep:
    """Do one step of a change; its end comes back as `StepDone` with the same number. `grace_s` is what `pause` waits."""

    change: int
    step: Step
    target: Target
    grace_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class CancelSteps:
    """Give up the step under way; no `StepDone` comes for it."""

    change: int


@dataclasses.dataclass(frozen=True)
class StartBridge:
    """Start a bridge on the inherited socket after a delay in seconds; the one before is gone."""

    delay_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class ReloadBridge:
    """Have the bridge read its settings again; open streams go on."""


@dataclasses.dataclass(frozen=True)
class ReplaceBridge:
    """Start a new bridge on the same socket, and let the old one finish its streams once the new one answers."""


@dataclasses.dataclass(frozen=True)
class KillBridge:
    """End a bridge that hangs, and keep its log."""

    pid: int


@dataclasses.dataclass(frozen=True)
class Record:
    """A line of the journal."""

    kind: str
    message: str
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Preload:
    """Fetch the weights of other engines in the background."""

    engines: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PublishCache:
    """Publish the compile cache of an engine that has proved itself, if its archive is new."""

    target: Target


@dataclasses.dataclass(frozen=True)
class FetchRuntime:
    """Fetch the runtime of this hash and unpack it beside ours."""

    sha256: str


@dataclasses.dataclass(frozen=True)
class HandOver:
    """End this supervisor, children left alone, so that the guardian starts the runtime of this hash."""

    sha256: str


@dataclasses.dataclass(frozen=True)
class EndSpend:
    """Stop the pod at its provider: nothing here will serve again by itself."""

    reason: str


@dataclasses.dataclass(frozen=True)
class StopEngine:
    """Stop an engine that is of no use, outside of any change."""


@dataclasses.dataclass(frozen=True)
class StopAll:
    """Stop every child and end. A bridge lets its streams finish for a while."""


Effect = (RunStep | CancelSteps | StartBridge | ReloadBridge | ReplaceBridge | KillBridge | Record | Preload | PublishCache
          | FetchRuntime | HandOver | EndSpend | StopEngine | StopAll)  # fmt: skip


class Effects(Protocol):
    """Carries commands out. Never blocks, never raises: what goes wrong comes back as an event."""

    def perform(self, effect: Effect) -> None:
        """Begin one command."""
