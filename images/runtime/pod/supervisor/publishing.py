"""What a publication leads to: the smallest action that makes the pod do what was published."""

from __future__ import annotations

import dataclasses
from typing import Literal

from pod.supervisor.changes import begin
from pod.supervisor.effects import CancelSteps, FetchRuntime, HandOver, ReloadBridge
from pod.supervisor.events import Published, Refused, RuntimeFetched, SwapWanted
from pod.supervisor.state import Publication, State, Step, SwapFailure, Target, engines_of, holds
from pod.supervisor.turn import Turn

Action = Literal["nothing", "settings", "bridge", "engine", "pod"]
# How long an engine must be without requests before a publication that waits for quiet may act.
QUIET_S = 10.0


def action_between(old: Target, new: Target) -> Action:
    """The smallest action that leads from one target to another."""
    if old.manifest.pod != new.manifest.pod or (old.manifest.bridge.mode == "off") != (new.manifest.bridge.mode == "off"):
        return "pod"
    if (old.manifest.bridge.host, old.manifest.bridge.port) != (new.manifest.bridge.host, new.manifest.bridge.port):
        return "pod"
    if (old.engine, old.spec.launch, old.manifest.kv_store) != (new.engine, new.spec.launch, new.manifest.kv_store):
        return "engine"
    groups = old.manifest.changes(new.manifest)
    return "bridge" if "bridge" in groups else "settings" if groups else "nothing"


def published(turn: Turn, event: Published) -> None:
    """A publication that can be trusted. The last one wins; what it asks for begins at once if it may."""
    turn.set(sequence=event.sequence, runtime_awaited=None)
    state = turn.state
    if event.runtime and event.runtime not in (state.runtime, *state.runtime_refused):
        turn.record("publication", f"number {event.sequence} brings runtime {event.runtime[:12]}", sequence=event.sequence)
        turn.do(FetchRuntime(event.runtime))
        turn.set(runtime_awaited=event.runtime, pending=Publication(event.target, event.when, event.runtime) if event.target else state.pending)
        return
    if event.target is None:
        refused(turn, Refused("newer-schema", "its manifest was written for a later runtime, which it does not bring"))
        return
    why = state.is_quarantined.get(event.target.sha)
    if why:
        refused(turn, Refused("quarantined", f"manifest {event.target.sha[:12]} failed before: {why}"))
        return
    turn.set(pending=Publication(_same_engine(state, event.target), event.when))
    turn.record("publication", f"number {event.sequence}: manifest {event.target.sha[:12]}", sequence=event.sequence)
    _make_room(turn)
    act(turn)


def _same_engine(state: State, target: Target) -> Target:
    """The target with the engine that is served now, where the new manifest still has it under another that starts first."""
    swapped = state.target.engine != state.target.manifest.engine.name
    known = {engine.name for engine in engines_of(target.manifest)}
    return dataclasses.replace(target, engine=state.target.engine) if swapped and state.target.engine in known else target


def _make_room(turn: Turn) -> None:
    """Give up a change that the newest publication overtakes and that costs no service to give up."""
    change, pending = turn.state.change, turn.state.pending
    if change is None or pending is None or pending.target is None:
        return
    is_boot_of_another = not turn.state.serving and change.back_to is None and action_between(change.target, pending.target) == "engine"
    if (change.kind == "reload" and change.is_gentle) or is_boot_of_another:
        is_awaited = holds(turn.state)
        turn.do(CancelSteps(change.id))
        turn.set(change=None, phase="", detail="")
        turn.record("change", f"{change.kind} given up for a newer publication", change=change.id)
        if is_awaited:
            _instead(turn, pending.target)


def _instead(turn: Turn, target: Target) -> None:
    """Start another engine than the one that was coming back. Clients go on waiting, and what served before is what it goes back to."""
    steps: tuple[Step, ...] = ("secrets", "weights", "stop", "prepare", "start", "prove")
    turn.set(restarts=(), spend_ended=False)
    begin(turn, "reload", target, "a publication, while the engine is coming back", back_to=turn.state.good or turn.state.target, steps=steps, was_down=True)


def act(turn: Turn) -> None:
    """Begin what waits: the last publication first, then the swaps that clients asked for."""
    state = turn.state
    if state.change is not None or state.stopping:
        return
    if state.pending and state.pending.target and state.pending.runtime is None and turn.now >= state.pending.not_before:
        _take_over(turn, state.pending, state.pending.target)
    if turn.state.change is None and turn.state.swaps and turn.state.serving:
        wanted, *rest = turn.state.swaps
        turn.set(swaps=tuple(rest))
        _swap(turn, wanted)


def _take_over(turn: Turn, pending: Publication, target: Target) -> None:
    state = turn.state
    action = action_between(state.target, target)
    if action == "pod":
        turn.set(pending=None)
        refused(turn, Refused("needs-new-pod", "it changes the image, the GPUs or the ports, which a running pod cannot; create a new pod"))
        turn.set(notice="the last publication needs a new pod: image, GPUs or ports differ")
        return
    if not state.serving:
        # A start that was given up unproved is still more than nothing, should the publication not serve.
        if state.good is None and state.fatal is None and state.target.sha != target.sha:
            turn.set(fallback=state.fallback or state.target)
        turn.set(pending=None, restarts=(), spend_ended=False, fatal=None)
        begin(turn, "boot", target, "a publication, while nothing serves")
        return
    if action == "engine":
        if pending.when == "idle" and not _is_quiet(turn):
            turn.set(notice="a publication waits for a moment without requests")
            return
        begin(turn, "reload", target, "a publication changes the engine", back_to=state.target)
        return
    turn.set(pending=None, target=target, good=target if state.serving else state.good, notice="")
    turn.record("publication", f"taken over; action: {action}", action=action, manifest=target.sha[:12])
    if action == "bridge":
        turn.do(ReloadBridge())


def _is_quiet(turn: Turn) -> bool:
    since = turn.state.load.quiet_since
    return since is not None and turn.now - since >= QUIET_S


def refused(turn: Turn, event: Refused) -> None:
    """A publication that is not taken over: say so, change nothing."""
    turn.set(notice=f"a publication was refused: {event.reason}")
    turn.record("refused", f"a publication was refused, nothing changes: {event.reason}", code=event.code)


def runtime_fetched(turn: Turn, event: RuntimeFetched) -> None:
    """The new runtime is here, so the guardian may start it; or it is not, and ours goes on."""
    if not event.ok:
        pending = turn.state.pending
        turn.set(runtime_refused=(*turn.state.runtime_refused, event.sha256), runtime_awaited=None, pending=pending and dataclasses.replace(pending, runtime=None))
        refused(turn, Refused("runtime", f"its runtime {event.sha256[:12]} cannot be used: {event.detail}"))
        return
    turn.record("runtime", f"handing over to runtime {event.sha256[:12]}; engine and bridge go on", sha256=event.sha256)
    turn.do(HandOver(event.sha256))


def swap_wanted(turn: Turn, event: SwapWanted) -> None:
    """A client waits for another engine. One swap at a time; a repeated wish is one wish."""
    state = turn.state
    if event.engine not in {engine.name for engine in engines_of(state.target.manifest)}:
        turn.set(swap_failure=SwapFailure(event.engine, "no engine of the swap set has that name", turn.now))
        return
    going = state.change.target.engine if state.change else state.target.engine
    if event.engine in state.swaps or (event.engine == going and not state.swaps):
        return
    turn.set(swaps=(*state.swaps, event.engine), swap_failure=None)
    act(turn)


def _swap(turn: Turn, engine: str) -> None:
    state = turn.state
    if engine == state.target.engine:
        return
    target = dataclasses.replace(state.target, engine=engine)
    begin(turn, "swap", target, f"a client asks for {engine}", back_to=state.target)
