"""What others see of the state: the file that the bridge reads, and the status document. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pod.supervisor.state import GENTLE, Restart, State, Target, holds

# What clients are told to wait before they ask again: a restart takes minutes, so sooner is of no use.
RETRY_AFTER_S = 30
# A swap that failed this long ago may be tried again when a client asks.
SWAP_FAILURE_S = 60.0


@dataclasses.dataclass(frozen=True)
class Clock:
    """The same moment on the clock that never jumps and on the wall's."""

    now: float
    wall: float

    def at(self, moment: float) -> float:
        """A moment of the steady clock, in seconds since 1970."""
        return round(self.wall - (self.now - moment), 3)


def engine_document(state: State, clock: Clock) -> dict[str, Any]:
    """`engine.json`: what the bridge must know to let requests through, hold them, or send them away."""
    going = state.change.target if state.change and not state.change.is_gentle else state.target
    spec = going.spec
    return {
        "version": 1, "state": state.name, "model": going.engine, "served_names": list(spec.served_names), "port": spec.launch.port,
        "since": clock.at(state.since), "detail": detail_of(state), "hold": holds(state), "retry_after_s": RETRY_AFTER_S,
    }  # fmt: skip


def detail_of(state: State) -> str:
    """The state in one line for people: the reason and the cure of a fatal one, else how far what is under way is."""
    if state.fatal and state.change is None:
        return f"{state.fatal.cause}; {state.fatal.fix}" if state.fatal.fix else state.fatal.cause
    return f"{state.phase}: {state.detail}" if state.phase and state.detail else state.phase or state.detail


def status_document(state: State, clock: Clock, facts: Mapping[str, Any]) -> dict[str, Any]:
    """`GET /status`. `facts` come from whoever carries effects out: processes, journal, timings, the follower."""
    manifest = state.target.manifest
    fatal = state.fatal
    return {
        "version": 1, "state": state.name, "since": clock.at(state.since), "phase": state.phase, "detail": detail_of(state), "notice": state.notice,
        "hold": holds(state), "profile": manifest.profile, "engine": _target(state.target), "engine_release": manifest.pod.release,
        "compiler": manifest.compiler, "good": _target(state.good) if state.good else None,
        "change": {"kind": state.change.kind, "step": state.change.step, "reason": state.change.reason, "to": _target(state.change.target),
                   "began": clock.at(state.change.began)} if state.change else None,
        "fatal": {"code": fatal.code, "cause": fatal.cause, "fix": fatal.fix,
                  "retry_at": clock.at(fatal.retry_at) if fatal.retry_at else None} if fatal else None,
        "runtime": state.runtime, "publication": {"sequence": state.sequence, "pending": _target(state.pending.target) if state.pending and state.pending.target else None},
        "quarantined": [{"manifest": sha, "reason": why} for sha, why in state.quarantined],
        "load": {"running": state.load.running, "waiting": state.load.waiting},
        "restarts": {"engine": _restarts(state.restarts, clock), "bridge": _restarts(state.bridge_restarts, clock)},
        "swap": {"wanted": list(state.swaps), "failure": dataclasses.asdict(state.swap_failure) if state.swap_failure else None},
        "bridge_pid": state.bridge_pid, "levers": [dataclasses.asdict(lever) for lever in state.target.levers], **facts,
    }  # fmt: skip


def _target(target: Target) -> dict[str, Any]:
    return {"name": target.engine, "served_names": list(target.spec.served_names), "manifest": target.sha, "sequence": target.sequence,
            "port": target.spec.launch.port, "context_window": target.spec.context_window}  # fmt: skip


def _restarts(restarts: Sequence[Restart], clock: Clock) -> list[dict[str, Any]]:
    return [{"at": clock.at(r.at), "reason": r.reason} for r in restarts]


def swap_answer(state: State, engine: str, now: float) -> tuple[int, str]:
    """What a client's wish for an engine comes to before it is told to `decide`: an HTTP status and words."""
    names = [e.name for e in (state.target.manifest.engine, *(state.target.manifest.swap.others if state.target.manifest.swap else ()))]
    if engine not in names:
        return 404, f"no engine of this pod is called {engine[:80]}; there are {', '.join(names)}"
    failure = state.swap_failure
    if failure and failure.engine == engine and now - failure.at < SWAP_FAILURE_S:
        return 503, f"{engine} could not be loaded: {failure.reason}"
    if state.name == "fatal" or state.stopping:
        return 503, f"the pod is {state.name}: {detail_of(state)}"
    if state.name in ("booting", "reloading") and state.change and not state.serving:
        return 409, f"the pod is {state.name}"
    return 202, f"{engine} will be loaded"


def restart_s(entries: Iterable[Mapping[str, Any]]) -> float | None:
    """How long the last start that succeeded kept clients waiting, in seconds, by the journal: all of the change but its gentle steps."""
    found: float | None = None
    gentle_s = 0.0
    for entry in entries:
        kind, seconds = entry.get("kind"), entry.get("seconds")
        if kind == "change":
            gentle_s = 0.0
        elif kind == "phase" and entry.get("phase") in GENTLE and isinstance(seconds, (int, float)):
            gentle_s += seconds
        elif kind == "serving" and isinstance(seconds, (int, float)):
            found = round(max(0.0, seconds - gentle_s), 3)
    return found


def lines(status: Mapping[str, Any]) -> list[str]:
    """A status document for a person."""
    engine, publication = status["engine"], status["publication"]
    rows = [("state", f"{status['state']}{' (' + status['detail'] + ')' if status['detail'] else ''}, for {_span(status['now'] - status['since'])}"),
            ("profile", f"{status['profile']}, engine release {status['engine_release']}, podwright {status['compiler']}"),
            ("engine", f"{engine['name']}: {', '.join(engine['served_names'])}, port {engine['port']}, pid {status.get('engine_pid') or 'none'}"),
            ("manifest", f"{engine['manifest'][:12]}, publication {engine['sequence'] or 'none (the image brought it)'}"),
            ("good", status["good"]["manifest"][:12] if status["good"] else "none yet"),
            ("bridge", f"pid {status['bridge_pid']}" if status["bridge_pid"] else "none")]  # fmt: skip
    rows += [("notice", status["notice"])] if status["notice"] else []
    rows += [("fatal", f"{status['fatal']['cause']}"), ("fix", status["fatal"]["fix"])] if status["fatal"] else []
    rows += [("pending", publication["pending"]["manifest"][:12])] if publication["pending"] else []
    rows += [("quarantine", f"{row['manifest'][:12]}: {row['reason']}") for row in status["quarantined"]]
    rows += [("restart", f"{_span(status['now'] - row['at'])} ago: {row['reason']}") for row in status["restarts"]["engine"][-5:]]
    rows += [("lever", f"{row['name']}={row['value']}: {row['effect']}") for row in status["levers"]]
    rows += [("phases", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in status["phases"].items()))] if status.get("phases") else []
    rows += [("last", f"{row.get('message', '')}") for row in status.get("last", [])[-3:]]
    return [f"{name:<11}{text}" for name, text in rows]


def _span(seconds: float) -> str:
    whole = max(0, round(seconds))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"
