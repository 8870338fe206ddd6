"""Distributions that were replaced in this container, and the way back when the engine does not start with one.

Imports prove little: a new transformers can import and still refuse the model. So the bootstrap notes each replacement beside the
image's files, the first proved start settles it, and a start that fails before that takes it back, once. Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal

from pod.hub.files import write_atomically
from pod.launch import ROOT_ENV
from pod.patches.outcomes import Applied, Outcome, Refused
from pod.patches.packages import Install, installed_version, state
from pod.strict_json import ShapeError, decoded, encoded, parsed

_NOTE = "/opt/podwright/upgrades.json"


@dataclasses.dataclass(frozen=True)
class Upgrade:
    """`now` stands in place of `before`. `unproved` until the engine has answered; `tried`: it was taken back, or could not be."""

    name: str
    before: str
    now: str
    state: Literal["unproved", "proved", "tried"] = "unproved"

    def __str__(self) -> str:
        return f"{self.name} {self.now} in place of {self.before}"


@dataclasses.dataclass(frozen=True)
class Upgrades:
    """All that is noted: how distributions are installed here (a program and the engine's interpreter), and what was replaced."""

    installer: tuple[str, ...] = ()
    rows: tuple[Upgrade, ...] = ()

    def unproved(self, version: Callable[[str], str | None] = installed_version) -> tuple[Upgrade, ...]:
        """Those that are installed and have not been seen to serve."""
        return tuple(row for row in self.rows if row.state == "unproved" and version(row.name) == row.now)


def note_of(environ: Mapping[str, str]) -> Path:
    """Where the bootstrap of this container notes what it replaces."""
    return Path(environ.get(ROOT_ENV, "") + _NOTE)


def read(note: Path) -> Upgrades:
    """What is noted; nothing where nobody has, or it cannot be read."""
    try:
        return decoded(Upgrades, parsed(note.read_bytes()))
    except (OSError, ShapeError):
        return Upgrades()


def spoilt(note: Path, requirement: str, version: Callable[[str], str | None] = installed_version) -> Upgrade | None:
    """The replacement that this requirement would make again, and with which the engine did not start here; None otherwise."""
    tried = (row for row in read(note).rows if row.state == "tried" and version(row.name) == row.before)
    return next((row for row in tried if state(requirement, {row.name: row.now}.get) == "ok"), None)


def add(note: Path, installer: Iterable[str], upgrade: Upgrade) -> None:
    """Note a replacement. Raises OSError."""
    rows = tuple(row for row in read(note).rows if row.name != upgrade.name)
    _write(note, Upgrades(tuple(installer), (*rows, upgrade)))


def settle(note: Path) -> None:
    """The engine has answered with all that is installed. A note that cannot be written costs at most a needless return."""
    noted = read(note)
    if any(row.state == "unproved" for row in noted.rows):
        rows = tuple(dataclasses.replace(row, state="proved") if row.state == "unproved" else row for row in noted.rows)
        with contextlib.suppress(OSError):
            _write(note, dataclasses.replace(noted, rows=rows))


def take_back(note: Path, install: Install, version: Callable[[str], str | None] = installed_version) -> list[Outcome]:
    """Bring back what stood before each unproved replacement. Each is tried once, however it ends. Raises OSError."""
    outcomes: list[Outcome] = []
    for upgrade in read(note).unproved(version):
        wanted = f"{upgrade.name}=={upgrade.before}"
        problem = install(wanted)
        if not problem and version(upgrade.name) != upgrade.before:
            problem = f"{version(upgrade.name) or 'nothing'} is there afterwards"
        add(note, read(note).installer, dataclasses.replace(upgrade, state="tried"))
        fix = "bake the version that serves into the image (container.extras)"
        outcomes.append(Refused(wanted, f"{wanted} could not be brought back: {problem}", fix) if problem
                        else Applied(wanted, f"is back; the engine did not start with {upgrade.now}"))  # fmt: skip
    return outcomes


def _write(note: Path, noted: Upgrades) -> None:
    write_atomically(note, json.dumps(encoded(noted), indent=1).encode())
