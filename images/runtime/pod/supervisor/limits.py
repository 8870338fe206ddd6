"""The limits of the rent: a pod that is old enough, or idle for long enough, has its own rent ended. Pure, like `decide`."""

from __future__ import annotations

from pod.contract import SpendLimits
from pod.supervisor.effects import EndSpend
from pod.supervisor.state import State
from pod.supervisor.turn import Turn

# A provider that could not be told is asked again after this long.
AGAIN_S = 1800.0


def check(turn: Turn, age_s: float) -> None:
    """End the spend when a limit is reached. `age_s` is the time since the container started."""
    state = turn.state
    if state.spend_ended or state.stopping or turn.now < state.spend_not_before:
        return
    reached = _reached(state, turn.now, age_s)
    if reached:
        turn.set(spend_ended=True)
        turn.record("spend-limit", reached)
        turn.do(EndSpend(reached))


def refused(turn: Turn) -> None:
    """The provider was not told: a pod that still serves has nobody else who would ask again."""
    if turn.state.fatal is None:
        turn.set(spend_ended=False, spend_not_before=turn.now + AGAIN_S)


def _reached(state: State, now: float, age_s: float) -> str:
    limits: SpendLimits = state.target.manifest.supervisor.spend
    if limits.max_s is not None and age_s >= limits.max_s:
        return f"limit: the pod is {age_s / 3600:.1f} hours old, deploy.max_hours allows {limits.max_s / 3600:g}"
    quiet_since = state.load.quiet_since
    # Only what serves can be idle: a start, a swap or a fault has its own clock.
    if limits.idle_s is not None and state.serving and state.change is None and quiet_since is not None and now - quiet_since >= limits.idle_s:
        return f"limit: no request for {(now - quiet_since) / 60:.0f} minutes, deploy.idle_stop_minutes allows {limits.idle_s / 60:g}"
    return ""
