"""`.podwright/<profile>.json`: what this folder knows of a profile's pod, so that two commands do not make two pods.

Written whole or not at all, and only while its lock is held. It holds no secret. The provider knows better: a file that is lost is made
again from the provider's list of pods. A file of a later podwright is never read or replaced.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from compiler.artifact import write_text
from compiler.deploy.answers import mapping, number, rows, text, whole
from compiler.deploy.failures import DeployError

VERSION = 1
FOLDER = Path(".podwright")
# How long a place that gave a sick host is asked last. Operators repair a host within hours, and a data center has many.
SICK_S = 6 * 3600.0


class StateUnusable(DeployError):
    """The state file cannot be used as it is."""

    code = "DPL024"


class Busy(DeployError):
    """Another command works on the same profile."""

    code = "DPL025"


@dataclasses.dataclass(frozen=True, slots=True)
class SickPlace:
    """A place that gave a sick host, and until when it is asked last. RunPod's REST v2 names no machine."""

    place: str
    until: float


@dataclasses.dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod as it was made. `image` carries its digest where one is known; `manifest` is the sha256 of the manifest that it started with."""

    id: str
    name: str
    url: str
    image: str
    manifest: str | None
    created: float
    price_usd_h: float | None
    gpu_id: str | None = None
    gpu_count: int | None = None
    data_center: str | None = None
    cloud: str | None = None
    cuda: str | None = None
    served: float | None = None
    end_by: float | None = None

    def cost_usd(self, now: float) -> float | None:
        """What the pod has cost since its creation, by its price; None while that is not known."""
        return None if self.price_usd_h is None else max(0.0, now - self.created) / 3600 * self.price_usd_h


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """All of a profile. `intent` is the name of a pod that was about to be asked for: it may exist although no answer came."""

    profile: str
    provider: str = "runpod"
    pod: PodRecord | None = None
    intent: str | None = None
    template_id: str | None = None
    sick: tuple[SickPlace, ...] = ()

    def sick_places(self, now: float) -> list[str]:
        """Places to ask last."""
        return [s.place for s in self.sick if s.until > now]

    def with_sick(self, place: str, now: float) -> State:
        """The state with one more bad place; expired ones are forgotten."""
        kept = tuple(s for s in self.sick if s.until > now and s.place != place)
        return dataclasses.replace(self, sick=(*kept, SickPlace(place, now + SICK_S)))


class StateFile:
    """One profile's file in a folder."""

    def __init__(self, profile: str, folder: Path = FOLDER) -> None:
        self.profile, self.folder = profile, folder
        self.path, self._lock_path = folder / f"{profile}.json", folder / f"{profile}.lock"
        self._held = False

    def read(self) -> State:
        """What the file says; an empty state where there is none. Raises StateUnusable."""
        try:
            raw = self.path.read_text("utf-8")
        except FileNotFoundError:
            return State(self.profile)
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable(str(error)) from None
        try:
            found = mapping(json.loads(raw))
        except ValueError:
            raise self._unusable("it is not JSON") from None
        version = whole(found.get("version"))
        if version is None or version > VERSION:
            raise self._unusable(f"it has version {found.get('version')!r}, this podwright writes {VERSION}")
        return _state(self.profile, found)

    def write(self, state: State) -> None:
        """Replace the file. Raises OSError when it cannot be written."""
        made_folder(self.folder)
        write_text(self.path, json.dumps({"version": VERSION, **dataclasses.asdict(state)}, indent=2) + "\n")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else changes this profile's pod meanwhile; whoever holds it may take it again. Raises Busy at once when somebody else does."""
        if self._held:
            yield
            return
        made_folder(self.folder)
        with self._lock_path.open("a+", encoding="utf-8") as file:
            if not _try_lock(file):
                file.seek(0)
                raise Busy(
                    f"another command works on {self.profile} (process {file.read().strip() or 'unknown'})",
                    "Two at once could rent two pods.",
                    f"Wait until it has ended, or end it; `podwright status {self.profile}` works meanwhile.",
                )
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            self._held = True
            try:
                yield
            finally:
                self._held = False

    def _unusable(self, why: str) -> StateUnusable:
        return StateUnusable(
            f"{self.path} cannot be used: {why}",
            "It says which pod belongs to the profile; guessing could rent a second one.",
            f"Use the podwright that wrote it, or move the file away: `podwright status {self.profile}` then makes it again from the provider's list.",
        )


def made_folder(folder: Path) -> None:
    """The folder, with a .gitignore of its own, so that no repository takes it in."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def known_profiles(folder: Path = FOLDER) -> list[str]:
    """Profiles that have a file in the folder."""
    return sorted(file.stem for file in folder.glob("*.json")) if folder.is_dir() else []


def _try_lock(file: TextIO) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _state(profile: str, found: Any) -> State:
    pod = mapping(found.get("pod"))
    sick = ((text(s.get("place")), number(s.get("until"))) for s in rows(found.get("sick")))
    return State(
        profile=profile,
        provider=text(found.get("provider")) or "runpod",
        pod=_pod(pod) if text(pod.get("id")) else None,
        intent=text(found.get("intent")),
        template_id=text(found.get("template_id")),
        sick=tuple(SickPlace(place, until) for place, until in sick if place and until),
    )


def _pod(pod: Any) -> PodRecord:
    return PodRecord(
        id=text(pod.get("id")) or "",
        name=text(pod.get("name")) or "",
        url=text(pod.get("url")) or "",
        image=text(pod.get("image")) or "",
        manifest=text(pod.get("manifest")),
        created=number(pod.get("created")) or 0.0,
        price_usd_h=number(pod.get("price_usd_h")),
        gpu_id=text(pod.get("gpu_id")),
        gpu_count=whole(pod.get("gpu_count")),
        data_center=text(pod.get("data_center")),
        cloud=text(pod.get("cloud")),
        cuda=text(pod.get("cuda")),
        served=number(pod.get("served")),
        end_by=number(pod.get("end_by")),
    )
