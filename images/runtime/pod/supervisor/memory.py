"""What must outlive a supervisor and a container: which manifest is in force, what was good, what failed, how often."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pod import folders
from pod.contract import Manifest, ManifestError
from pod.folders import StateFolder
from pod.levers import LeverError, with_levers
from pod.publication import Taken
from pod.supervisor.state import Restart, State, Target, engines_of, holds

VERSION = 1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def saved(state: State, given: str, taken: Taken) -> dict[str, Any]:
    """The part of a state that is kept. `given` is the hash of the manifest file that the bootstrap handed over."""
    def of(target: Target | None) -> dict[str, Any] | None:
        return None if target is None else {"sha": target.sha, "engine": target.engine, "sequence": target.sequence}

    return {
        "version": VERSION, "boot_id": _boot_id(), "given": given, "in_force": of(state.target), "good": of(state.good), "good_before": of(state.good_before),
        "sequence": state.sequence, "taken": dataclasses.asdict(taken), "quarantined": [list(pair) for pair in state.quarantined],
        "going": of(state.change.target) if state.change and not state.change.is_gentle else None, "holding": holds(state), "serving": state.serving, "restarts": [[r.at, r.reason, r.had_served] for r in state.restarts], "is_preloaded": state.is_preloaded,
        "runtime_refused": list(state.runtime_refused), "spend_ended": state.spend_ended, "since": state.since,
    }  # fmt: skip


def keep_manifest(folder: StateFolder, manifest: Manifest) -> None:
    """Keep a manifest as it was written, by its hash, so that it can be gone back to."""
    path = folder.manifest(manifest.sha256())
    if not path.exists():
        folders.write(path, manifest.canonical_bytes())


def target_of(manifest: Manifest, environ: Mapping[str, str], engine: str | None = None, sequence: int = 0) -> Target:
    """A manifest as a target, with this pod's levers. Raises LeverError."""
    levered = with_levers(manifest, environ)
    names = {e.name for e in engines_of(levered.manifest)}
    return Target(levered.manifest, engine if engine in names else levered.first, manifest.sha256(), sequence, levered.levers)


def restored(folder: StateFolder, data: Mapping[str, Any], given: str, environ: Mapping[str, str], now: float) -> State | None:
    """The state that was kept, where it belongs to the same given manifest and its own can still be read; None otherwise."""
    if data.get("version") != VERSION or data.get("given") != given:
        return None
    try:
        target = _target(folder, data.get("in_force"), environ)
        if target is None:
            return None
        same_boot = data.get("boot_id") == _boot_id()
        restarts = [Restart(float(at), str(why), bool(served)) for at, why, served in data["restarts"]] if same_boot else []
        return State(
            target=target, since=float(data.get("since", now)) if same_boot else now, good=_target(folder, data["good"], environ), good_before=_target(folder, data["good_before"], environ),
            sequence=int(data["sequence"]), quarantined=tuple((str(sha), str(why)) for sha, why in data["quarantined"]),
            restarts=tuple(restarts), is_preloaded=bool(data["is_preloaded"]) and same_boot, runtime_refused=tuple(map(str, data["runtime_refused"])),
            spend_ended=bool(data["spend_ended"]) and same_boot,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, LeverError):
        return None


def going_of(folder: StateFolder, data: Mapping[str, Any], environ: Mapping[str, str]) -> Target | None:
    """What was on its way into force and had its engine stopped for it; None where nothing was, or it cannot be read any more."""
    with contextlib.suppress(KeyError, TypeError, ValueError, LeverError):
        return _target(folder, data.get("going"), environ)
    return None


def taken_of(data: Mapping[str, Any]) -> Taken:
    """The publication that was taken notice of last."""
    with contextlib.suppress(KeyError, TypeError, ValueError):
        return Taken(int(data["taken"]["sequence"]), str(data["taken"]["sha256"]))
    return Taken(0, "")


def _target(folder: StateFolder, row: Any, environ: Mapping[str, str]) -> Target | None:
    if not isinstance(row, dict):
        return None
    try:
        manifest = Manifest.from_bytes(folder.manifest(str(row["sha"])).read_bytes())
    except (OSError, ManifestError):
        return None
    return target_of(manifest, environ, str(row["engine"]), int(row["sequence"]))


def _boot_id() -> str:
    """A word for this boot of the machine, whose clock the kept times are of."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
