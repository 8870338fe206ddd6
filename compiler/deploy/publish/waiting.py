"""After the commit: each pod is looked at until it serves the new revision, went back, or refused it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

from compiler.deploy.clock import Clock, Pace
from compiler.deploy.publish.effect import Effect
from compiler.deploy.publish.followers import Forecast
from compiler.deploy.publish.pods import Report, Unseen

# Two seconds between two requests of one command, as everywhere.
PACE_S = 2.0
# Beside the pod's own pace of asking: fetching, checking the command line in the engine's own parser (25 s were seen), a new runtime.
TAKING_S = 180.0
# A pod that answered before and says nothing for so long: its bridge and its supervisor are gone, or the network is.
SILENCE_S = 300.0
# A restart that loads weights, compiles and captures; the pod itself goes back after its own limit, this one only ends our waiting.
RESTART_S = 3600.0

End = Literal["serving", "back", "refused", "overtaken", "fatal", "silent", "waiting", "unknown", "later"]


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """How one pod ended up, in a word and in a sentence."""

    pod: str
    end: End
    detail: str

    @property
    def ok(self) -> bool:
        """Whether nothing is left to do or to worry about."""
        return self.end in ("serving", "later", "waiting")


@dataclasses.dataclass(frozen=True, slots=True)
class Aim:
    """What every pod should come to: the publication's number, the manifest's hash, the runtime (None: the one that the pod has)."""

    sequence: int
    manifest: str
    runtime: str | None


def ending(aim: Aim, before: Report | Unseen, now: Report | Unseen) -> tuple[End, str] | None:
    """How a pod ended up by its last report; None while it is under way. Pure."""
    if isinstance(now, Unseen):
        return None
    if aim.manifest in now.quarantined:
        return "back", f"it went back to publication {now.sequence or 'of its image'}: {now.quarantined[aim.manifest]}"
    if now.heard > aim.sequence:
        return "overtaken", f"publication {now.heard} came after it"
    known = set(before.refusals) if isinstance(before, Report) else set(now.refusals)
    if fresh := [words for at, words in now.refusals if (at, words) not in known]:
        return "refused", fresh[-1]
    if now.manifest != aim.manifest or now.sequence < aim.sequence or now.changing or now.pending:
        return None
    if now.state == "fatal":
        return "fatal", now.detail
    if now.state == "serving" and aim.runtime in (None, now.runtime):
        return "serving", f"publication {now.sequence}, manifest {now.manifest[:12]}"
    return None


def follow(forecasts: Sequence[Forecast], aim: Aim, poll_s: float, clock: Clock, say: Callable[[str], None]) -> list[Ending]:
    """Look at all pods until each has ended up somewhere, or the patience for its kind of change is over."""
    return [_followed(f, aim, poll_s, clock, Pace(clock, PACE_S), say) for f in forecasts]


def _followed(forecast: Forecast, aim: Aim, poll_s: float, clock: Clock, pace: Pace, say: Callable[[str], None]) -> Ending:
    pod = forecast.follower
    if pod.away:
        return Ending(pod.name, "later", "it is stopped and takes it over at its next start")
    if isinstance(pod.seen, Unseen) or forecast.astray:
        return Ending(pod.name, "unknown", forecast.astray or (pod.seen.reason if isinstance(pod.seen, Unseen) else ""))
    deadline = clock.time() + poll_s + TAKING_S + (RESTART_S if forecast.effect in (Effect.ENGINE, None) else 0.0)
    last_word, told = clock.time(), ""
    while True:
        pace.wait()
        now = pod.client.report()
        if (found := ending(aim, pod.seen, now)) is not None:
            return Ending(pod.name, *found)
        if isinstance(now, Report):
            last_word = clock.time()
        if (words := _progress(now)) != told:
            told = words
            say(f"{pod.name}: {words}")
        if clock.time() - last_word > SILENCE_S:
            return Ending(
                pod.name, "silent", f"it has said nothing for {SILENCE_S / 60:.0f} minutes: {now.reason if isinstance(now, Unseen) else ''}"
            )
        if clock.time() > deadline:
            if isinstance(now, Report) and now.pending:
                return Ending(pod.name, "waiting", f"{now.notice or 'it has it and waits'}; it takes it over by itself")
            return Ending(pod.name, "silent", f"it has not taken it over in time; it says: {told}")


def _progress(now: Report | Unseen) -> str:
    if isinstance(now, Unseen):
        return now.reason
    words = f"{now.state}{f', {now.detail}' if now.detail else ''}"
    return (
        f"{words}; {now.notice}"
        if now.notice
        else f"{words}; following: {now.follows}"
        if not now.changing and now.state == "serving"
        else words
    )
