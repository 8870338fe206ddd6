"""Faults of processes that only an engine on command can play, and of the machine around them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.campaign import PATIENCE_S, Case, Group, Stage
from tests.faults.clients import waited
from tests.faults.worlds import Followed, followed, followed_on, following, hub, kept
from tests.unit.pod.living import RUNTIME, Pod, toy_manifest
from tests.unit.pod.test_main_follow import with_flags

Toy = Followed


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Toy]:
    with followed(folder, following("--slow-start", "1.0", "--worker")) as world:
        yield world


def killed(*pids: int) -> None:
    """KILL to each."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def engine_and_supervisor(stage: Stage[Toy]) -> None:
    """Both at once: the next supervisor finds an engine that is gone."""
    before, world = stage.world.serves(), stage.world
    with stage.clients(world.pod, "told"):
        supervisor = world.pod.supervisor()
        stage.strike(lambda: killed(supervisor, before["engine_pid"]))
        stage.served_again()
    stage.expect(world.serves()["engine_pid"] != before["engine_pid"], "another engine serves")


def supervisor_while_the_engine_starts(stage: Stage[Toy]) -> None:
    """A publication's new engine is starting when the supervisor dies: the publication is not lost."""
    world = stage.world
    new = with_flags(world.manifest, "--slow-start", "6.0")
    with stage.clients(world.pod, "told"):
        world.publish(new)
        world.until(lambda s: s["change"] and s["change"]["step"] == "start" and s["engine_pid"], "the new engine starts")
        stage.strike(lambda: os.kill(world.pod.supervisor(), signal.SIGKILL))
        world.takes_over(new)
        stage.recovered("what was published is in force")
    world.manifest = new


def stopped_supervisor(stage: Stage[Toy]) -> None:
    """20 s of which the supervisor knows nothing, as on a host that was suspended."""
    world, before = stage.world, stage.world.serves()
    supervisor = world.pod.supervisor()
    with stage.clients(world.pod):
        stage.strike(lambda: os.kill(supervisor, signal.SIGSTOP))
        time.sleep(20.0)
        os.kill(supervisor, signal.SIGCONT)
        stage.strike(lambda: None)
        world.until(lambda s: s["state"] == "serving", "serving")
        stage.recovered("its status answers")
        time.sleep(6.0)  # one look of the watchdog
    stage.expect(world.pod.supervisor() == supervisor, "it is the same supervisor")
    kept(stage, world, before)


def ignores_term(stage: Stage[Toy]) -> None:
    """An engine change while the engine ignores TERM: KILL after 20 s, clients are held."""
    world = stage.world
    deaf = with_flags(world.manifest, "--ignore-sigterm")
    world.publish(deaf)
    world.takes_over(deaf)
    with stage.clients(world.pod, "told"):
        stage.strike(lambda: world.publish(world.manifest))
        world.takes_over(world.manifest)
        stage.recovered("the next engine serves")


def killed_guardian(stage: Stage[Toy]) -> None:
    """The first process of the pod is killed: everything ends with it."""
    pod = stage.world.pod
    assert pod.process is not None
    stage.strike(pod.process.kill)
    waited(lambda: not pod.left(), PATIENCE_S, "every process ended")
    stage.recovered("no process is left")


@contextlib.contextmanager
def _nothing(folder: Path) -> Iterator[Path]:
    yield folder


def three_exits(stage: Stage[Path]) -> None:
    """An engine that ends during its boot again and again: given up, told, and healed by a publication."""
    manifest = following("--exit-at-start", "1", "--say", "RuntimeError: CUDA out of memory. Tried to allocate 2.0 GiB")
    with followed(stage.folder, manifest, serves=False) as world:
        stage.strike(lambda: None)
        status = world.until(lambda s: s["state"] == "fatal", "given up")
        stage.note(f"given up after {len(status['restarts']['engine']) + 1} starts in {time.monotonic() - stage.struck:.0f} s")
        stage.expect(status["fatal"]["code"] == "crash-loop" and "out of GPU memory" in status["fatal"]["cause"], "it says why")
        stage.expect(world.until(lambda s: any(line["kind"] == "spend" for line in s["last"]), "spend"), "the end of the spend is tried")
        code, answer = world.pod.complete()
        stage.result.clients = f"{code} with the reason"
        stage.expect(code == 529 and "out of GPU memory" in str(answer), "clients are told why")
        fixed = following(base=toy_manifest(port=manifest.engine.launch.port, endpoint=manifest.bridge.port))
        stage.strike(lambda: world.publish(fixed))
        world.takes_over(fixed)
        stage.recovered("a fixed publication serves")


def _engine_port_taken(stage: Stage[Path]) -> None:
    manifest = following()
    with socket.socket() as other:
        other.bind(("127.0.0.1", manifest.engine.launch.port))
        other.listen()
        with followed(stage.folder, manifest, serves=False) as world:
            status = world.until(lambda s: s["state"] == "fatal", "said")
            stage.expect(status["fatal"]["code"] == "port-taken" and str(manifest.engine.launch.port) in status["fatal"]["cause"], "it names the port")
            code, _ = world.pod.complete()
            stage.result.clients = f"{code} with the reason"
            stage.strike(other.close)
            world.serves()
            stage.recovered("it serves, after the port is free")


def _endpoint_taken(stage: Stage[Path]) -> None:
    manifest = following()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", manifest.bridge.port))
        other.listen()
        with followed(stage.folder, manifest, serves=False) as world:
            world.until(lambda s: s["state"] == "serving" and len(s["restarts"]["bridge"]) >= 2, "the bridge is tried again")
            stage.expect("cannot be opened" in world.pod.log.read_text(), "the container's log says why")
            stage.strike(other.close)
            waited(lambda: _completes(world.pod), PATIENCE_S, "an answer")
            stage.recovered("a client is served, after the port is free")
            stage.result.clients = "another program answered, then served"


def _completes(pod: Pod) -> bool:
    with contextlib.suppress(OSError):
        return pod.complete()[0] == 200
    return False


_CLOCK = """
import os, time
_true = time.time
def _shifted():
    try:
        with open(os.environ["WALL_CLOCK_SHIFT"]) as file:
            return _true() + float(file.read() or 0)
    except OSError:
        return _true()
time.time = _shifted
"""


def _clock_jumps(stage: Stage[Path], seconds: float) -> None:
    """The wall clock of every process of the pod leaps, by a file that each of them reads at every look."""
    (stage.folder / "clock").mkdir()
    (stage.folder / "clock" / "sitecustomize.py").write_text(_CLOCK)
    shift = stage.folder / "shift"
    environ = {"PYTHONPATH": f"{stage.folder / 'clock'}:{RUNTIME}", "WALL_CLOCK_SHIFT": str(shift)}
    with hub() as server, followed_on(server, stage.folder, environ=environ) as world:
        before = world.serves()
        with stage.clients(world.pod):
            stage.strike(lambda: shift.write_text(str(seconds)))
            status = world.until(lambda s: abs(s["now"] - time.time() - seconds) < 60, "the pod's clock leapt")
            stage.expect(abs(status["now"] - status["since"] - (before["now"] - before["since"])) < 120, "how long it serves is not counted by that clock")
            time.sleep(12.0)  # two looks of the watchdog
            new = world.other()
            stage.strike(lambda: world.publish(new))
            world.takes_over(new)
            stage.recovered("a publication after the leap is in force")
        stage.expect(world.serves()["engine_pid"] == before["engine_pid"], "the engine was not touched")
        os.kill(before["engine_pid"], signal.SIGKILL)
        stage.expect(world.until(lambda s: s["state"] == "serving" and s["engine_pid"] not in (None, before["engine_pid"]), "back"), "a crash is mended after it")


def groups() -> list[Group[Any]]:
    """The cases, by world."""
    living_pod = Group("Processes and the machine", "toy", _opened, [
        Case("engine and supervisor killed at once", engine_and_supervisor),
        Case("supervisor killed while a published engine starts", supervisor_while_the_engine_starts),
        Case("supervisor stopped for 20 s", stopped_supervisor),
        Case("engine that ignores TERM", ignores_term),
        Case("guardian killed", killed_guardian, keeps_pod=False),
    ], lambda world: world.pod)  # fmt: skip
    alone = Group("Processes and the machine", "toy", _nothing, [
        Case("engine that ends during its boot, three times", three_exits),
        Case("port of the engine taken", _engine_port_taken),
        Case("port of the endpoint taken", _endpoint_taken),
        Case("wall clock leaps a day ahead", lambda stage: _clock_jumps(stage, 86_400.0)),
        Case("wall clock leaps a day back", lambda stage: _clock_jumps(stage, -86_400.0)),
    ])  # fmt: skip
    return [living_pod, alone]
