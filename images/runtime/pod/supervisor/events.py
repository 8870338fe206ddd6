"""What can happen to the supervisor. Each is a fact, told once."""

from __future__ import annotations

import dataclasses
from typing import Literal

from pod.supervisor.state import Step, Target

# Kinds of failure after which trying the same again later may help.
PASSING = frozenset(("offline", "network", "timeout", "error", "port-taken"))


@dataclasses.dataclass(frozen=True)
class Begin:
    """The supervisor starts. `engine_pid` is of a living engine of the supervisor before; `is_ours`: it is the one that is in force,
    and is adopted, whether it served already or was still starting. `going`: it is the one of a publication that was on its way into
    force. `has_clients`: clients were served or asked to wait."""

    engine_pid: int | None = None
    is_ours: bool = False
    was_serving: bool = False
    bridge_pid: int | None = None
    going: Target | None = None
    has_clients: bool = False


@dataclasses.dataclass(frozen=True)
class StepDone:
    """A step of a change has ended. `kind` names what failed, `detail` says it in words, `fix` what to do about it."""

    change: int
    step: Step
    ok: bool
    kind: str = ""
    detail: str = ""
    fix: str = ""


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far the step under way is."""

    phase: str
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class EngineExited:
    """The engine's process is gone. `code` is None for an adopted one. `cause` is the short reason found in its log."""

    pid: int
    code: int | None
    cause: str = ""
    is_sick_host: bool = False


@dataclasses.dataclass(frozen=True)
class BridgeStarted:
    """A bridge answers on the endpoint's socket."""

    pid: int


@dataclasses.dataclass(frozen=True)
class BridgeExited:
    """A bridge's process is gone. `said` is the last line of its log when it ended by itself with an error."""

    pid: int
    code: int | None
    said: str = ""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the watchdog asks for."""

    request: Literal["restart-engine", "restart-bridge", "report"]
    reason: str


@dataclasses.dataclass(frozen=True)
class Requests:
    """What the engine says about its load; `is_known` is false where it says nothing, which is not quiet."""

    running: int
    waiting: int
    is_known: bool = True


@dataclasses.dataclass(frozen=True)
class Published:
    """A publication whose signature and hashes are right. `target` is None where only a later runtime can read its manifest."""

    target: Target | None
    sequence: int
    when: Literal["now", "idle"]
    runtime: str | None = None


@dataclasses.dataclass(frozen=True)
class Refused:
    """A publication that cannot be used, and why."""

    code: str
    reason: str


@dataclasses.dataclass(frozen=True)
class SwapWanted:
    """A client asks for another engine of the swap set."""

    engine: str


@dataclasses.dataclass(frozen=True)
class Preloaded:
    """The weights of another engine of the swap set were fetched in the background, or were not."""

    engine: str
    ok: bool
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class RuntimeFetched:
    """The runtime that a publication wants is unpacked beside ours, or could not be."""

    sha256: str
    ok: bool
    detail: str = ""


@dataclasses.dataclass(frozen=True)
class SpendEnded:
    """The attempt to stop the pod at its provider, and what came of it."""

    ok: bool
    detail: str


@dataclasses.dataclass(frozen=True)
class Tick:
    """Time has passed. `age_s` is the time since the container started."""

    age_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class StopWanted:
    """The pod is told to end."""

    signal: str


Event = (Begin | StepDone | Progress | EngineExited | BridgeStarted | BridgeExited | Verdict | Requests | Published | Refused
         | SwapWanted | Preloaded | RuntimeFetched | SpendEnded | Tick | StopWanted)  # fmt: skip
