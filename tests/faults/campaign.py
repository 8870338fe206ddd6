"""What a fault case is, and how one is run: struck while clients ask, timed, and looked at for what was left behind or lost."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.faults.clients import KEY, Clients, Ending, Seen, waited
from tests.faults.leftovers import files_of_engine, left_behind, still_there
from tests.unit.pod.living import Pod

W = TypeVar("W")
# Bounds every wait for something to happen. The slowest, the restart of a real engine, takes 30 s on an idle machine.
PATIENCE_S = float(os.environ.get("PODWRIGHT_FAULTS_PATIENCE_S") or 300.0)
# How long what was killed may take to vanish before it counts as left behind.
VANISH_S = 15.0
OWN_FOLDER = "podwright-faults-"
# Set when somebody ends the campaign: cases under way go to their end, so that nothing of them is left, and no other one begins.
ENDED = threading.Event()


@dataclasses.dataclass
class Result:
    """What came of one case. `recovered_s` counts from the fault until `recovered_to`; `problems` is empty where all was as it must be."""

    name: str
    section: str
    player: str
    clients: str = "nobody asked"
    recovered_s: float | None = None
    recovered_to: str = ""
    left: list[str] = dataclasses.field(default_factory=list)
    lost: str = "nothing"
    sdk: str = ""
    words: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    skipped: str = ""


class Skipped(Exception):
    """Why a case cannot be played on this machine."""


class Stage(Generic[W]):
    """What one case works with: its world, its own folder, the clients, and the result that it fills."""

    def __init__(self, world: W, folder: Path, result: Result) -> None:
        self.world, self.folder, self.result = world, folder, result
        self.struck = self._done = time.monotonic()
        self._clients: Clients | None = None

    @contextlib.contextmanager
    def clients(self, pod: Pod, *accepted: Ending, count: int = 3, model: str = "m", tokens: int = 8,
                key: str = KEY, pause_s: float = 0.05) -> Iterator[Clients]:  # fmt: skip
        """Clients that ask meanwhile. Every answer must be served, or end as `accepted` says."""
        with Clients(pod.manifest.bridge.port, count, model=model, tokens=tokens, key=key, pause_s=pause_s) as clients:
            self._clients = clients
            waited(lambda: clients.first_served(0.0), PATIENCE_S, "a first answer")
            yield clients
        self._saw(Seen.of(clients.calls), accepted)

    def _saw(self, seen: Seen, accepted: Sequence[Ending]) -> None:
        self.result.clients, self.result.words = str(seen), list(seen.words)
        if others := seen.but(("served", *accepted)):
            self.problem(f"clients saw {others}: {'; '.join(seen.words)}")

    def strike(self, do: Callable[[], object]) -> None:
        """Do the fault; from now on time counts."""
        self.struck = time.monotonic()
        do()
        self._done = time.monotonic()

    def recovered(self, to: str) -> None:
        """It is over; the first word counts."""
        if self.result.recovered_s is None:
            self.result.recovered_s, self.result.recovered_to = round(time.monotonic() - self.struck, 2), to

    def served_again(self, seconds: float = PATIENCE_S) -> None:
        """Wait until a client that asked after the fault has its answer."""
        assert self._clients is not None
        clients = self._clients
        waited(lambda: clients.first_served(self._done), seconds, f"an answer after the fault; {Seen.of(clients.calls)}")
        call = clients.first_served(self._done)
        assert call is not None
        self.result.recovered_s, self.result.recovered_to = round(call.ended - self.struck, 2), "a client that asked after it is served"

    def expect(self, holds: object, what: str) -> None:
        """Something that must be so."""
        if not holds:
            self.problem(f"not so: {what}")

    def problem(self, text: str) -> None:
        """Something that must not be."""
        self.result.problems.append(text)

    def note(self, text: str) -> None:
        """Something worth knowing."""
        self.result.notes.append(text)


@dataclasses.dataclass(frozen=True)
class Case(Generic[W]):
    """One fault: its name in the table, and what plays it. `keeps_pod`: the world's pod lives on and is looked at afterwards."""

    name: str
    play: Callable[[Stage[W]], None]
    keeps_pod: bool = True


@dataclasses.dataclass(frozen=True)
class Group(Generic[W]):
    """Cases that share one world, in the order in which they are played. `pod_of` finds the pod to look at; `mended` ends what a
    case before that failed has left broken."""

    section: str
    player: str
    opened: Callable[[Path], contextlib.AbstractContextManager[W]]
    cases: Sequence[Case[W]]
    pod_of: Callable[[W], Pod | None] = lambda world: None
    mended: Callable[[W], object] = lambda world: None


Tell = Callable[[str], None]


def play(group: Group[Any], wanted: Callable[[str], bool], tell: Tell, opened: threading.Event | None = None) -> list[Result]:
    """Open the group's world and play its cases. A world that cannot be opened fails all of them."""
    cases = [case for case in group.cases if wanted(case.name)]
    results: list[Result] = []
    if not cases or ENDED.is_set():
        return results
    folder = Path(tempfile.mkdtemp(prefix=OWN_FOLDER))
    try:
        with group.opened(folder) as world:
            if opened is not None:
                opened.set()
            for case in cases:
                if ENDED.is_set():
                    return results
                results.append(_played(group, case, world, folder, tell))
    except Exception as error:
        for case in cases[len(results) :]:
            result = Result(case.name, group.section, group.player, skipped=str(error) if isinstance(error, Skipped) else "")
            result.problems += [] if result.skipped else [f"its pod never came to be: {_words(error)}"]
            results.append(_told(result, tell))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _played(group: Group[Any], case: Case[Any], world: Any, folder: Path, tell: Tell) -> Result:
    result, began = Result(case.name, group.section, group.player), time.monotonic()
    group.mended(world)
    own = Path(tempfile.mkdtemp(dir=folder, prefix="case-"))
    pod = group.pod_of(world)
    before = Before(_last_line(pod), files_of_engine(pod)) if pod else None
    try:
        case.play(Stage(world, own, result))
        if pod is not None and before is not None and case.keeps_pod:
            _look(pod, before, result)
    except Skipped as reason:
        result.skipped = str(reason)
    except Exception as error:
        result.problems.append(_words(error))
    result.seconds = round(time.monotonic() - began, 1)
    return _told(result, tell)


@dataclasses.dataclass(frozen=True)
class Before:
    """What was there before a fault: the journal's last line, and the files of the engine."""

    line: dict[str, Any] | None
    files: set[str]


def _look(pod: Pod, before: Before, result: Result) -> None:
    """What is left behind after a while, and whether the journal still has what it had."""
    deadline = time.monotonic() + VANISH_S
    while (left := [*left_behind(pod), *still_there(before.files, pod)]) and time.monotonic() < deadline:
        time.sleep(0.2)
    result.left = left
    result.problems += [f"left behind: {', '.join(left)}"] if left else []
    if before.line is not None and before.line not in pod.ask("GET", "/journal?lines=2000")[1]["lines"]:
        result.lost = "lines of the journal"
        result.problems.append("the journal has lost its lines from before the fault")


def _last_line(pod: Pod) -> dict[str, Any] | None:
    lines = pod.ask("GET", "/journal?lines=1")[1]["lines"]
    return dict(lines[-1]) if lines else None


def _words(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:1500]}"


def _told(result: Result, tell: Tell) -> Result:
    if result.skipped:
        tell(f"SKIPPED  {result.name}: {result.skipped}")
        return result
    recovered = f"{result.recovered_s:.1f} s until {result.recovered_to}; " if result.recovered_s is not None else ""
    tell(f"{'FAILED' if result.problems else 'ok    '}  {result.name}: {recovered}{result.clients}{'; SDK: ' + result.sdk if result.sdk else ''}")
    for problem in result.problems:
        tell(f"        {problem[:400]}")
    return result


def as_json(results: Sequence[Result], facts: dict[str, Any]) -> str:
    """The whole campaign as a document."""
    return json.dumps({**facts, "cases": [dataclasses.asdict(result) for result in results]}, indent=1, ensure_ascii=False) + "\n"
