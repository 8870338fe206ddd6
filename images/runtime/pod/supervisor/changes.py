"""Changes of the engine: how each begins, goes on step by step, and what a failure of a step leads to."""

from __future__ import annotations

import dataclasses

from pod.supervisor.effects import CancelSteps, EndSpend, Preload, PublishCache, ReloadBridge, RunStep, StopEngine
from pod.supervisor.events import PASSING, EngineExited, StepDone
from pod.supervisor.state import GENTLE, STEPS, Change, Fatal, Kind, Load, Restart, Step, SwapFailure, Target
from pod.supervisor.turn import Turn
from pod.watchdog.crash_loop import RestartBudget

# Failures of the engine itself, after which another start may well work. Every other failure needs a person or a publication.
CRASHES = frozenset(("exited", "stalled", "wrong-answer", "no-answer"))
# First and longest wait before something that may pass (a network that is away) is tried again.
RETRY_S, RETRY_MAX_S = 20.0, 300.0
KEPT_RESTARTS = 50


def begin(turn: Turn, kind: Kind, target: Target, reason: str, *, back_to: Target | None = None, pause_s: float = 0.0,
          steps: tuple[Step, ...] = (), was_down: bool = False) -> None:  # fmt: skip
    """Start a change; whatever was under way must be over. `steps` where not all of its kind are needed."""
    had_served = turn.state.serving or turn.state.good is not None
    change = Change(turn.state.next_change, kind, target, steps or STEPS[kind], reason, turn.now, turn.now, back_to, had_served, pause_s, was_down)
    turn.set(change=change, next_change=change.id + 1, fatal=None if kind != "boot" else turn.state.fatal, notice="")
    turn.record("change", f"{kind}: {reason}", engine=target.engine, manifest=target.sha[:12], change=change.id)
    _run(turn)


def _run(turn: Turn) -> None:
    change = turn.state.change
    assert change is not None
    if change.step in ("stop", "drain") or not turn.state.engine_up:
        turn.set(serving=turn.state.serving and change.step == "drain")
    turn.set(phase=change.step, detail="")
    turn.do(RunStep(change.id, change.step, change.target, change.pause_s if change.step == "pause" else 0.0))


def step_done(turn: Turn, event: StepDone) -> None:
    """A step ended; one of a change that was given up is nobody's business any more."""
    change = turn.state.change
    if change is None or (change.id, change.step) != (event.change, event.step):
        return
    if not event.ok:
        failed(turn, change, event)
        return
    if event.step == "stop":
        turn.set(engine_up=False, serving=False)
    if event.step == "start":
        turn.set(engine_up=True)
    if len(change.steps) == 1:
        _served(turn, change)
        return
    advance(turn)


def advance(turn: Turn) -> None:
    """On to the next step."""
    change = turn.state.change
    assert change is not None
    turn.record("phase", f"{change.step} took {turn.now - change.step_began:.1f} s", phase=change.step, seconds=round(turn.now - change.step_began, 3))
    turn.set(change=dataclasses.replace(change, steps=change.steps[1:], step_began=turn.now))
    _run(turn)


def _served(turn: Turn, change: Change) -> None:
    state, target = turn.state, change.target
    before = state.good
    turn.set(change=None, serving=True, engine_up=True, target=target, good=target, fallback=None, fatal=None, phase="", detail="", load=Load(), upgrades=(),
             good_before=before if before and before.sha != target.sha else state.good_before)  # fmt: skip
    turn.record("serving", f"{target.engine} serves, {turn.now - change.began:.1f} s after the {change.kind} began",
                engine=target.engine, manifest=target.sha[:12], seconds=round(turn.now - change.began, 3))  # fmt: skip
    if state.target.manifest.bridge != target.manifest.bridge or state.target.sha != target.sha:
        turn.do(ReloadBridge())
    _forget(turn, target)
    turn.do(PublishCache(target))
    swap = target.manifest.swap
    if swap and swap.preload and not state.is_preloaded:
        turn.set(is_preloaded=True)
        others = tuple(e.name for e in (target.manifest.engine, *swap.others) if e.name != target.engine)
        turn.do(Preload(others))


def failed(turn: Turn, change: Change, done: StepDone) -> None:
    """A step did not work: back to what served, another try, or the end of the road with a reason."""
    turn.record("failed", f"{change.kind} failed at {done.step}: {done.detail}", step=done.step, reason=done.kind, fix=done.fix)
    turn.set(change=None, phase="", detail="")
    if done.kind == "sick-host":
        end_of_road(turn, "sick-host", done.detail, done.fix or "delete this pod and create it again on another host")
    elif done.kind in CRASHES and turn.state.upgrades:
        _take_back(turn, change, done)
    elif change.kind in ("reload", "swap"):
        _went_wrong(turn, change, done)
    elif done.kind in CRASHES:
        again(turn, change.target, f"{done.step}: {done.detail}", had_served=False)
    elif done.kind not in PASSING and (back := turn.state.fallback) and back.sha != change.target.sha and back.sha not in turn.state.is_quarantined:
        quarantine(turn, change.target, f"{done.step}: {done.detail}")
        begin(turn, "rollback", back, f"manifest {change.target.sha[:12]} cannot be started: {done.detail}")
    else:
        tries = turn.state.fatal.tries if turn.state.fatal else 0
        wait = min(RETRY_S * 2**tries, RETRY_MAX_S)
        stuck(turn, Fatal(done.kind, done.detail, done.fix, turn.now + wait if done.kind in PASSING else None, tries + 1), change.target)


def _take_back(turn: Turn, change: Change, done: StepDone) -> None:
    """A distribution was replaced before this first start: without it, once, before anything else is blamed."""
    upgrades = ", ".join(turn.state.upgrades)
    turn.set(upgrades=())
    turn.record("upgrade", f"no engine has served since {upgrades}: taken back, once, and started again")
    begin(turn, "restart", change.target, f"{done.step}: {done.detail}", steps=("stop", "take-back", "prepare", "start", "prove"))


def _went_wrong(turn: Turn, change: Change, done: StepDone) -> None:
    reason = f"{done.step}: {done.detail}"
    if change.kind == "swap":
        turn.set(swap_failure=SwapFailure(change.target.engine, reason, turn.now))
    elif done.kind in PASSING and change.step in GENTLE and turn.state.pending:
        turn.set(pending=dataclasses.replace(turn.state.pending, not_before=turn.now + RETRY_S))
        turn.record("publication", f"tried again in {RETRY_S:.0f} s; the service goes on as it is")
    else:
        quarantine(turn, change.target, reason)
        _forget(turn, change.target)
    if change.is_gentle:
        return
    back = change.back_to or turn.state.good
    if back is None:
        again(turn, turn.state.target, reason, had_served=False)
    else:
        begin(turn, "rollback", back, f"{change.target.engine} of manifest {change.target.sha[:12]} did not serve: {reason}")


def _forget(turn: Turn, target: Target) -> None:
    """Drop the pending publication, unless a newer one has taken its place."""
    pending = turn.state.pending
    if pending and pending.target and pending.target.sha == target.sha:
        turn.set(pending=None)


def quarantine(turn: Turn, target: Target, reason: str) -> None:
    """Remember that a manifest does not work, so that it is not tried again."""
    kept = tuple((sha, why) for sha, why in turn.state.quarantined if sha != target.sha)
    turn.set(quarantined=(*kept[-19:], (target.sha, reason)), notice=f"manifest {target.sha[:12]} is quarantined: {reason}")
    turn.record("quarantine", f"manifest {target.sha[:12]} is not tried again: {reason}", manifest=target.sha[:12])


def again(turn: Turn, target: Target, reason: str, *, had_served: bool) -> None:
    """Restart an engine that failed, as long as the budget lasts; then the manifest before, then the end of the spend."""
    budget = RestartBudget(target.manifest.supervisor.watchdog.crash_loop_restarts)
    for restart in turn.state.restarts:
        if restart.had_served:
            budget.served()
        budget.ask(restart.at, restart.had_served, restart.reason)
    if had_served:
        budget.served()
    decision = budget.ask(turn.now, had_served, reason)
    if decision.allowed:
        turn.set(restarts=(*turn.state.restarts[1 - KEPT_RESTARTS :], Restart(turn.now, reason, had_served)))
        begin(turn, "restart", target, reason, pause_s=decision.wait_s)
        return
    back = next((t for t in (turn.state.good, turn.state.good_before, turn.state.fallback) if t and t.sha != target.sha), None)
    if back and back.sha not in turn.state.is_quarantined:
        quarantine(turn, target, decision.reason)
        turn.set(restarts=())
        begin(turn, "rollback", back, f"manifest {target.sha[:12]} crashes in a loop")
        return
    end_of_road(turn, "crash-loop", decision.reason, "read the end of engine.log; publish a manifest that serves, or delete the pod")


def end_of_road(turn: Turn, code: str, cause: str, fix: str) -> None:
    """Nothing here will serve again by itself, so the rent must not run on."""
    stuck(turn, Fatal(code, cause, fix), turn.state.change.target if turn.state.change else turn.state.target)
    if not turn.state.spend_ended:
        turn.set(spend_ended=True)
        turn.do(EndSpend(f"{code}: {cause}"))


def stuck(turn: Turn, fatal: Fatal, target: Target) -> None:
    """Fatal, with the container open and the publications still followed."""
    if turn.state.engine_up:
        turn.do(StopEngine())
    turn.set(fatal=fatal, change=None, serving=False, target=target, phase="", detail=fatal.cause)
    if fatal.retry_at is None:
        turn.set(fallback=None)
    turn.record("fatal", fatal.cause, code=fatal.code, fix=fatal.fix, retry_s=round(fatal.retry_at - turn.now) if fatal.retry_at else None)


def engine_exited(turn: Turn, event: EngineExited) -> None:
    """The engine's process is gone: expected while it is being stopped, a crash otherwise."""
    change = turn.state.change
    if turn.state.stopping:
        turn.set(engine_up=False, serving=False)
        return
    code = "an unknown code" if event.code is None else f"code {event.code}" if event.code >= 0 else f"signal {-event.code}"
    reason = f"the engine ended with {code}{': ' + event.cause if event.cause else ''}"
    turn.record("engine", reason, pid=event.pid, code=event.code)
    had_served = turn.state.serving
    turn.set(engine_up=False, serving=False)
    if change is None:
        _crashed(turn, reason, event, had_served)
    elif change.step in ("start", "prove"):
        turn.do(CancelSteps(change.id))
        failed(turn, change, StepDone(change.id, change.step, False, "sick-host" if event.is_sick_host else "exited", reason))
    elif change.step == "drain":
        turn.do(CancelSteps(change.id))
        advance(turn)
    elif change.is_gentle and had_served:
        turn.do(CancelSteps(change.id))
        turn.set(change=None)
        _crashed(turn, reason, event, had_served)


def _crashed(turn: Turn, reason: str, event: EngineExited, had_served: bool) -> None:
    if event.is_sick_host:
        end_of_road(turn, "sick-host", reason, "delete this pod and create it again on another host: nothing in a container repairs a GPU")
    elif had_served:
        again(turn, turn.state.target, reason, had_served=True)
