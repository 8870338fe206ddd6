"""What the pod's runtime costs: the start of an engine through it, its idling, and a publication's way to clients.

`python -m tests.bench.runtime start`     a real engine through bootstrap and runtime against the same command line by hand, in turns
`python -m tests.bench.runtime idle`      CPU and memory of guardian and supervisor (watchdog, journal and follower in it) while nothing happens
`python -m tests.bench.runtime publish`   from a commit on a Hub to new settings, a new bridge, and the engine's stop

Each prints its figures beside the goal, and ends with 1 where one is missed. `start` needs the environment that `podwright local` makes.
Runs on Linux. The engine of `idle` and `publish` is the tests' toy one: theirs are the costs of the runtime alone.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import http.client
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pod.contract import Follow, Manifest

from tests.bench.runtime_parts import (
    PUBLIC,
    REPO,
    Published,
    cpu_s,
    engine_of_local,
    following,
    payload,
    proportional_mib,
    resident_mib,
    without_cover,
)
from tests.hub_server import hub_server
from tests.unit.pod.living import Pod, living
from tests.unit.pod.manifests import with_launch

# The goals of docs/benchmarks.md: percent, percent of a core, MiB, seconds.
START_GOAL, IDLE_GOAL, MEMORY_GOAL, PUBLISH_GOAL, SWITCH_GOAL = 3.0, 0.5, 60.0, 35.0, 1.0
LOOK_S = 0.01
PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- begin runtime -->\n", "<!-- end runtime -->"
HEAD = f"""
## The runtime in the pod

Guardian and supervisor beside a toy engine, and a real engine on the CPU through the bootstrap against the same command line by hand, in
turns. Written by `make bench`.

{BEGIN}{END}
"""


@dataclasses.dataclass(frozen=True)
class Figure:
    """One measured thing, its unit, and what it may be at most."""

    name: str
    value: float
    unit: str
    goal: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the goal is met."""
        return self.goal is None or self.value <= self.goal

    def __str__(self) -> str:
        goal = "" if self.goal is None else f"   goal {self.goal:g} {self.unit}{'' if self.holds else '   MISSED'}"
        return f"{self.name:<58} {self.value:8.2f} {self.unit}{goal}"


def start(rounds: int) -> list[Figure]:
    """Starts in turns, so that a busy spell hits both; from the first process to the engine's own /health."""
    hand: list[float] = []
    runtime: list[float] = []
    with tempfile.TemporaryDirectory(prefix="podwright-bench-") as name:
        local = engine_of_local(Path(name))
        for number in range(rounds + 1):
            pair = [("hand", local.argv, hand), ("runtime", local.bootstrap, runtime)]
            for _, argv, into in pair if number % 2 else pair[::-1]:
                seconds = _until_healthy(argv, local.env_of(argv), local.port)
                if number:  # the first of each fills the page cache
                    into.append(seconds)
    by_hand, through = statistics.median(hand), statistics.median(runtime)
    return [
        Figure("engine by hand, until it is healthy", by_hand, "s"), Figure("engine through bootstrap and runtime", through, "s"),
        Figure("more", 100 * (through / by_hand - 1), "%", START_GOAL), Figure("more", through - by_hand, "s"),
    ]  # fmt: skip


def _until_healthy(argv: list[str], env: dict[str, str], port: int) -> float:
    """Seconds from the start of a program to an answer of the engine; the program is ended afterwards, whole."""
    began = time.monotonic()
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while _status(port, "/health") != 200:
            assert process.poll() is None and time.monotonic() - began < 900, f"{argv[:3]} did not come up"
            time.sleep(LOOK_S)
        return time.monotonic() - began
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            without_cover(process.pid)
        while _status(port, "/health"):
            time.sleep(0.2)


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def idle(seconds: float) -> list[Figure]:
    """A pod that serves and has nothing to do, following a Hub at the pace of a real one."""
    with tempfile.TemporaryDirectory() as name, hub_server() as hub:
        hub.create(REPO)
        manifest = following(Follow(REPO, "p/publication.json", 30.0, "now", "KEYS", False))
        with living(Path(name), manifest, {**hub.env(), "KEYS": PUBLIC}) as pod:
            pod.serves()
            time.sleep(15.0)  # what a start leaves to do
            assert pod.process is not None
            pids = [pod.process.pid, pod.supervisor()]
            before, began = sum(map(cpu_s, pids)), time.monotonic()
            time.sleep(seconds)
            share = 100 * (sum(map(cpu_s, pids)) - before) / (time.monotonic() - began)
            resident, fair = sum(map(resident_mib, pids)), sum(map(proportional_mib, pids))
            asked = len(hub.asked("publication.json"))
    return [
        Figure(f"guardian and supervisor, idle for {seconds:.0f} s", share, "% of a core", IDLE_GOAL),
        Figure("their resident memory", resident, "MiB", MEMORY_GOAL), Figure("the same, shared pages counted once", fair, "MiB"),
        Figure("questions to the Hub meanwhile", float(asked), ""),
    ]  # fmt: skip


def publish(rounds: int) -> list[Figure]:
    """Publications at random moments of the poll's period, as people publish."""
    settings: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name, hub_server() as hub:
        hub.create(REPO)
        manifest = following(Follow(REPO, "p/publication.json", 30.0, "now", "KEYS", False))
        with living(Path(name), manifest, {**hub.env(), "KEYS": PUBLIC}) as pod:
            pod.serves()
            published = Published(hub)
            for number in range(rounds):
                time.sleep(7.0 * (number % 4))
                manifest = dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, ping_s=5.0 + number))
                settings.append(_settings_reach_the_bridge(pod, published, manifest))
            whole, switch, refused = _another_bridge(pod, published, dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, ping_s=4.0)))
            stop = _engine_stops(pod, published, with_launch(manifest, argv=(*manifest.engine.launch.argv, "--slow-start", "0.1")))
    return [
        Figure(f"publication to the bridge's new settings, longest of {rounds}", max(w for w, _ in settings), "s", PUBLISH_GOAL),
        Figure("of which from taken over to acting", max(s for _, s in settings), "s", SWITCH_GOAL),
        Figure("publication of another runtime to its bridge", whole, "s", PUBLISH_GOAL),
        Figure("of which without a supervisor", switch, "s", SWITCH_GOAL),
        Figure("requests refused meanwhile", float(refused), "", 0.0),
        Figure("publication to the engine's stop", stop, "s", PUBLISH_GOAL),
    ]  # fmt: skip


def _settings_reach_the_bridge(pod: Pod, published: Published, manifest: Manifest) -> tuple[float, float]:
    log = pod.folder / "state/logs/bridge.log"
    known, began = log.read_bytes().count(b"new settings"), published.commit(manifest)
    taken = _moment(lambda: pod.status().get("engine", {}).get("manifest") == manifest.sha256() or log.read_bytes().count(b"new settings") > known)
    acting = _moment(lambda: log.read_bytes().count(b"new settings") > known)
    return acting - began, max(0.0, acting - taken)


def _another_bridge(pod: Pod, published: Published, manifest: Manifest) -> tuple[float, float, int]:
    """Seconds to a bridge of the new runtime, the longest time without an answer of a supervisor, and requests refused on the way."""
    stopped, refused = threading.Event(), [0]

    def ask() -> None:
        while not stopped.is_set():
            refused[0] += _status(manifest.bridge.port, "/health") != 200
            time.sleep(0.02)

    before = pod.status()["bridge_pid"]
    client = threading.Thread(target=ask)
    client.start()
    began = published.commit(manifest, payload())
    away, last = 0.0, time.monotonic()

    def changed() -> bool:
        nonlocal away, last
        status = pod.status()
        if status:
            away, last = max(away, time.monotonic() - last), time.monotonic()
        return bool(status) and status["engine"]["manifest"] == manifest.sha256() and status["bridge_pid"] not in (None, before)

    done = _moment(changed)
    stopped.set()
    client.join()
    return done - began, away, refused[0]


def _engine_stops(pod: Pod, published: Published, manifest: Manifest) -> float:
    before = pod.status()["engine_pid"]
    began = published.commit(manifest)
    return _moment(lambda: not Path(f"/proc/{before}").exists()) - began


def _moment(condition: Callable[[], bool], seconds: float = 120.0) -> float:
    """When something became so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(LOOK_S)
    return time.monotonic()


def table(figures: list[Figure]) -> str:
    """The figures as Markdown."""
    rows = "".join(f"| {f.name} | {f.value:.2f} {f.unit} | {'' if f.goal is None else f'{f.goal:g} {f.unit}'} |\n" for f in figures)
    facts = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}, {platform.system()})."
    return f"{facts}\n\n| what | measured | goal, at most |\n|---|---|---|\n{rows}"


def page(text: str, figures: str) -> str:
    """The page with the figures between the runtime's own markers, which stand at its end where it has none yet."""
    head, begin, rest = (text if BEGIN in text else f"{text.rstrip()}\n{HEAD}").partition(BEGIN)
    return head + begin + figures + END + rest.partition(END)[2]


def main() -> int:
    """The exit code: 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("start", "idle", "publish", "all"))
    parser.add_argument("--rounds", type=int, default=5, help="starts of each kind, publications")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long idling is watched")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    parser.add_argument("--page", action="store_true", help="write the figures into docs/benchmarks.md, too")
    options = parser.parse_args()
    figures: list[Figure] = []
    measures: dict[str, Callable[[], list[Figure]]] = {
        "idle": lambda: idle(options.seconds), "publish": lambda: publish(options.rounds), "start": lambda: start(options.rounds),
    }  # fmt: skip
    for name, measure in measures.items():
        if options.what in (name, "all"):
            found = measure()
            figures += found
            if not options.json:
                print("\n".join(map(str, found)), flush=True)
    if options.page:
        PAGE.write_text(page(PAGE.read_text("utf-8"), table(figures)), "utf-8")
    if options.json:
        print(json.dumps([dataclasses.asdict(figure) | {"holds": figure.holds} for figure in figures], indent=1))
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
