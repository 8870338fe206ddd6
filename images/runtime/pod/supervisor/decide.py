"""`decide`: one event and a state give the next state and what to do. Pure: no clock, no process, no file."""

from __future__ import annotations

from pod.supervisor import limits
from pod.supervisor.changes import again, begin, engine_exited, failed, step_done
from pod.supervisor.effects import CancelSteps, Effect, KillBridge, StartBridge, StopAll
from pod.supervisor.events import (
    Begin,
    BridgeExited,
    BridgeStarted,
    EngineExited,
    Event,
    Preloaded,
    Progress,
    Published,
    Refused,
    Requests,
    RuntimeFetched,
    SpendEnded,
    StepDone,
    StopWanted,
    SwapWanted,
    Tick,
    Verdict,
)  # fmt: skip
from pod.supervisor.publishing import act, published, refused, runtime_fetched, swap_wanted
from pod.supervisor.state import STEPS, Load, Restart, State, name_of
from pod.supervisor.turn import Turn

# A bridge that ends at once would otherwise be started in a tight loop; the first restart must be quick all the same.
BRIDGE_PAUSES_S = (0.0, 0.5, 2.0, 10.0)
BRIDGE_WINDOW_S = 120.0


def decide(state: State, event: Event, now: float) -> tuple[State, list[Effect]]:
    """The next state and the effects, in the order in which they must begin. `now` comes from a clock that never jumps."""
    turn = Turn(state, now)
    _answer(turn, event)
    if not turn.state.stopping:
        act(turn)
    name = name_of(turn.state)
    if name != state.name:
        turn.record("state", f"{state.name} -> {name}", before=state.name, after=name)
        turn.set(name=name, since=now)
    return turn.state, turn.effects


def _answer(turn: Turn, event: Event) -> None:
    match event:
        case Begin():
            _began(turn, event)
        case StepDone():
            step_done(turn, event)
        case Progress():
            turn.set(phase=event.phase, detail=event.detail)
        case EngineExited():
            engine_exited(turn, event)
        case BridgeStarted():
            turn.set(bridge_pid=event.pid)
        case BridgeExited():
            _bridge_exited(turn, event)
        case Verdict():
            _verdict(turn, event)
        case Requests():
            _requests(turn, event)
        case Published():
            published(turn, event)
        case Refused():
            refused(turn, event)
        case SwapWanted():
            swap_wanted(turn, event)
        case Preloaded():
            turn.record("preload", f"weights of {event.engine}: {'whole' if event.ok else event.detail}", engine=event.engine, ok=event.ok)
        case RuntimeFetched():
            runtime_fetched(turn, event)
        case SpendEnded():
            turn.record("spend", event.detail, ok=event.ok)
            if not event.ok:
                limits.refused(turn)
        case Tick():
            _tick(turn)
            limits.check(turn, event.age_s)
        case StopWanted():
            _stop(turn, event)


def _began(turn: Turn, event: Begin) -> None:
    if turn.state.target.manifest.bridge.mode != "off" and event.bridge_pid is None:
        turn.do(StartBridge())
    turn.set(bridge_pid=event.bridge_pid)
    if turn.state.fatal is not None:
        turn.record("fatal", turn.state.fatal.cause, code=turn.state.fatal.code, fix=turn.state.fatal.fix)
        return
    # Clients wait only where the bridge that holds them lives on.
    back = event.has_clients and event.bridge_pid is not None
    if event.engine_pid is None:
        begin(turn, "restart" if back else "boot", turn.state.target, "the runtime starts", steps=STEPS["boot"])
        return
    turn.set(engine_up=True)
    if event.was_serving:
        turn.set(serving=True, good=turn.state.target, name="serving")
        turn.record("adopted", f"the engine of the supervisor before goes on as process {event.engine_pid}", pid=event.engine_pid)
    elif event.is_ours:
        begin(turn, "restart" if back else "boot", turn.state.target, "the engine of the supervisor before is still starting, and goes on", steps=("start", "prove"))
    elif event.going is not None:
        begin(turn, "reload", event.going, "the engine of a publication is still starting, and goes on", back_to=turn.state.target, steps=("start", "prove"))
    else:
        begin(turn, "restart", turn.state.target, "the supervisor before ended in the middle of a change")


def _bridge_exited(turn: Turn, event: BridgeExited) -> None:
    if turn.state.stopping or event.pid != turn.state.bridge_pid:
        return
    turn.set(bridge_pid=None)
    kept = tuple(r for r in turn.state.bridge_restarts if turn.now - r.at < BRIDGE_WINDOW_S)
    code = "an unknown code" if event.code is None else str(event.code)
    reason = f"the bridge ended with {code}{': ' + event.said if event.said else ''}"
    turn.set(bridge_restarts=(*kept[-20:], Restart(turn.now, reason)))
    pause = BRIDGE_PAUSES_S[min(len(kept), len(BRIDGE_PAUSES_S) - 1)]
    turn.record("bridge", f"{reason}; started again in {pause:g} s", pid=event.pid, code=event.code)
    turn.do(StartBridge(pause))


def _verdict(turn: Turn, event: Verdict) -> None:
    turn.record("watchdog", f"{event.request}: {event.reason}", request=event.request)
    state = turn.state
    if event.request == "report":
        turn.set(notice=event.reason)
    elif event.request == "restart-bridge" and state.bridge_pid is not None:
        turn.do(KillBridge(state.bridge_pid))
    elif event.request == "restart-engine" and state.serving:
        change = state.change
        if change is not None and not change.is_gentle:
            return
        if change is not None:
            turn.do(CancelSteps(change.id))
            turn.set(change=None)
        again(turn, state.target, f"wedged: {event.reason}", had_served=True)


def _requests(turn: Turn, event: Requests) -> None:
    is_quiet = event.is_known and event.running == 0 and event.waiting == 0
    since = (turn.state.load.quiet_since if turn.state.load.quiet_since is not None else turn.now) if is_quiet else None
    turn.set(load=Load(event.running, event.waiting, since))


def _tick(turn: Turn) -> None:
    state = turn.state
    if state.fatal and state.fatal.retry_at is not None and turn.now >= state.fatal.retry_at and state.change is None and not state.stopping:
        begin(turn, "boot", state.target, f"trying again after: {state.fatal.cause}")
    change = turn.state.change
    if change is None or change.step != "start" or change.back_to is None:
        return
    limit = change.target.manifest.supervisor.watchdog.boot_stall_s
    if turn.now - change.step_began > limit:
        turn.do(CancelSteps(change.id))
        failed(turn, change, StepDone(change.id, "start", False, "stalled", f"it did not serve within {limit:.0f} s"))


def _stop(turn: Turn, event: StopWanted) -> None:
    if turn.state.stopping:
        return
    if turn.state.change:
        turn.do(CancelSteps(turn.state.change.id))
    turn.set(stopping=True, change=None)
    turn.record("stop", f"{event.signal}: stopping everything", signal=event.signal)
    turn.do(StopAll())
