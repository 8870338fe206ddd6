"""A forecast and a result as text and as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from compiler.deploy.display import duration
from compiler.deploy.failures import DeployError
from compiler.deploy.publish.effect import Effect, Outage
from compiler.deploy.publish.followers import Forecast
from compiler.deploy.publish.pods import Report, Unseen
from compiler.deploy.publish.release import Published, Release, When, differences
from compiler.deploy.publish.waiting import End, Ending
from compiler.diagnostics import printable

SHOWN_DIFFERENCES = 12
WORDS: dict[End, str] = {
    "serving": "serves it",
    "back": "WENT BACK",
    "refused": "REFUSED",
    "overtaken": "overtaken",
    "fatal": "SERVES NOTHING",
    "silent": "NOT KNOWN",
    "waiting": "has it and waits",
    "unknown": "NOT KNOWN",
    "later": "later",
}


def preview(wanted: Release, before: Published | None, forecasts: Sequence[Forecast], sequence: int, when: When, same: bool) -> str:
    """What would be published, what differs from what is there, and what each pod will do."""
    head = f"{wanted.profile}: number {sequence}, manifest {wanted.manifest.sha256()[:12]}"
    if same:
        head += ", is published already"
    elif before is None:
        head += ", the first one"
    else:
        head += f", after number {before.publication.sequence}"
    lines = [head + (f"; waits for a moment without requests where the engine restarts (when: {when})" if when == "idle" else "")]
    if before is not None and before.manifest is not None and not same:
        found = differences(before.manifest, wanted.manifest)
        lines += [f"  {line}" for line in found[:SHOWN_DIFFERENCES]]
        lines += [f"  and {len(found) - SHOWN_DIFFERENCES} more"] if len(found) > SHOWN_DIFFERENCES else []
        lines += ["  nothing in the manifest differs"] if not found else []
    lines += [f"  {f.follower.name}: {forecast_words(f, when)}" for f in forecasts] or ["  no running pod is known; new pods take it over"]
    return printable_lines(lines)


def forecast_words(f: Forecast, when: When) -> str:
    """What one pod will do."""
    seen = f.follower.seen
    if isinstance(seen, Unseen):
        return f"cannot be seen: {seen.reason}" + (f"; by what was published: {f.effect}" if f.effect else "")
    now = f"{seen.state}, {f'publication {seen.sequence}' if seen.sequence else 'the manifest of its image'} in force"
    if f.astray:
        return f"{now} -> will not see it: {f.astray}"
    if f.failed_before:
        return f"{now} -> refuses it, for it failed there before: {f.failed_before}"
    deed = "not known: its manifest cannot be read" if f.effect is None else str(f.effect)
    if f.effect is Effect.ENGINE:
        deed += f", {outage_words(f.outage)}; {f.busy or 'no'} request{'' if f.busy == 1 else 's'} now" + (
            ", it waits for quiet" if f.busy and when == "idle" else ""
        )
    if f.runtime and f.effect is not Effect.POD:
        deed += (
            "; its supervisor hands over to the new runtime, the engine goes on"
            if f.effect is not Effect.ENGINE
            else "; with a new runtime"
        )
    levers = f"; levers in force there: {', '.join(seen.levers)}" if seen.levers else ""
    return f"{now} -> {deed}{levers}"


def outage_words(outage: Outage | None) -> str:
    """How long clients wait."""
    return (
        "an outage of unknown length (nothing was measured)"
        if outage is None
        else f"about {duration(outage.seconds)} without answers ({outage.source})"
    )


def result_json(
    profile: str,
    repo: str,
    sequence: int,
    commit: str | None,
    note: str,
    forecasts: Sequence[Forecast],
    endings: Sequence[Ending],
    trouble: DeployError | None,
) -> dict[str, object]:
    """The result for programs."""
    return {
        "ok": trouble is None,
        "profile": profile,
        "repo": repo,
        "sequence": sequence,
        "commit": commit,
        "result": note,
        "forecast": [
            {
                "pod": f.follower.name,
                "effect": str(f.effect) if f.effect else None,
                "outage_s": f.outage.seconds if f.outage else None,
                "outage_source": f.outage.source if f.outage else None,
                "new_runtime": f.runtime,
                "busy": f.busy,
                "in_force": f.follower.seen.sequence if isinstance(f.follower.seen, Report) else None,
                "unseen": f.follower.seen.reason if isinstance(f.follower.seen, Unseen) else None,
            }
            for f in forecasts
        ],
        "pods": [dataclasses.asdict(e) for e in endings],
        **(trouble.to_json() if trouble else {}),
    }


def printable_lines(lines: Sequence[str]) -> str:
    """Lines of which none breaks or colours the terminal."""
    return "\n".join(printable(line) for line in lines)
