"""The supervisor's life: events in, decisions, effects out, and after each one the files that others read."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pod import __version__, folders, processes
from pod.folders import StateFolder
from pod.guardian import HAND_OVER, STOPPED
from pod.journal.journal import Journal
from pod.launch import resolved
from pod.publication import Taken
from pod.supervisor import http, logs
from pod.supervisor.decide import decide
from pod.supervisor.desktop import Desktops
from pod.supervisor.events import Begin, BridgeExited, EngineExited, Event, StopWanted, SwapWanted, Tick
from pod.supervisor.following import Following
from pod.supervisor.memory import going_of, saved
from pod.supervisor.mirroring import Mirroring
from pod.supervisor.proofs import proof_answer
from pod.supervisor.real import Real
from pod.supervisor.spend import spend_of
from pod.supervisor.state import State, Target, owes
from pod.supervisor.views import Clock, engine_document, restart_s, status_document, swap_answer
from pod.supervisor.watching import Watching

TICK_S = 1.0
# How often logs are looked at; an engine that prints a line a request fills 64 MiB in hours at the least.
ROTATE_S = 60.0
_LAST = 20
# A start leaves some twenty lines; requests leave none.
_LOOK_BACK = 1000


class Supervisor:
    """One life. Build it inside a running loop, then await `run`."""

    def __init__(self, state: State, folder: StateFolder, environ: Mapping[str, str], given: str, taken: Taken, journal: Journal) -> None:
        self.state = state
        self._folder, self._environ, self._given, self._journal = folder, environ, given, journal
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._written: dict[Path, str] = {}
        self._shown: Target | None = None
        self.phases: dict[str, float] = {}
        self.real = Real(folder, environ, folders.nonce(folder), self.post, self.note, spend_of(environ), self._finish)
        self.watching = Watching(self.real.children, self.real.steps, self.post, lambda: self.state, lambda: self.real.steps.reader.boot)
        self.following = Following(folder, environ, self.real.workers, taken, self.post, self.note)
        self.mirroring = Mirroring(folder, environ, self.real.workers, journal, lambda: self.state)
        self.desktops = Desktops(folder, environ, self.real.children, lambda: self.state, self.note)
        self.real.fetch_runtime, self.real.last_words = self.following.fetch_runtime, self.mirroring.copy
        self._tasks: list[asyncio.Task[Any]] = []
        self._parent = os.getppid()

    def post(self, event: Event) -> None:
        """Something has happened. Words that come from a log may hold a secret, and what they become is shown."""
        match event:
            case EngineExited():
                event = dataclasses.replace(event, cause=self._journal.redactor.text(event.cause))
            case BridgeExited():
                event = dataclasses.replace(event, said=self._journal.redactor.text(event.said))
            case _:
                pass
        self._events.put_nowait(event)

    def note(self, kind: str, message: str, **facts: Any) -> None:
        """A line for the journal; phases are also kept for the status."""
        if kind == "change":
            self.phases = {}
        if kind == "phase":
            self.phases[facts["phase"]] = facts["seconds"]
        self._journal.write(kind, message, **facts)

    async def run(self) -> int:
        """The exit code of one life."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_end, number)
        # Children inherit it: a bridge that is told of new settings before it listens to signals reads them anyway, and must not die of it.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._introduce()
        await self._listen()
        self._adopt()
        for work in (self._ticks(), self.watching.run(), self.following.run(), self.mirroring.run(), self.desktops.run(), self._decide_for_ever()):
            self._tasks.append(loop.create_task(work))
        waited: list[asyncio.Future[Any]] = [self._ended, *self._tasks]
        done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            task.cancel()
        for future in done:
            future.result()  # a fault of our own ends us: the guardian starts the next one, and engine and bridge go on
        return self._ended.result()

    def _introduce(self) -> None:
        """Which program on which manifest this is: without it one debugs a fix that has not arrived."""
        target, manifest = self.state.target, self.state.target.manifest
        self.note("start", f"podwright runtime {__version__} ({(self.state.runtime or 'of the image')[:12]}), profile {manifest.profile}, manifest {target.sha[:12]}, "
                           f"engine release {manifest.pod.release}, publication {target.sequence or 'none'}")
        for lever in target.levers:
            self.note("lever", f"{lever.name}={lever.value}: {lever.effect}", name=lever.name, value=lever.value)
        if self._folder.problem:
            self.note("state", self._folder.problem)

    def _adopt(self) -> None:
        if strays := self.real.workers.end_strays():
            self.note("adopted", f"{strays} workers of the supervisor before were ended")
        for child in self.real.children.adopt():
            self.note("adopted", f"{child.role} goes on as process {child.pid}", role=child.role, pid=child.pid)
        engine, bridge = self.real.children.of("engine"), self.real.children.of("bridge")
        target = self.state.target
        is_ours = engine is not None and (engine.facts.get("engine"), engine.facts.get("manifest")) == (target.engine, target.sha)
        memory = folders.read_json(self._folder.memory_file)
        was_serving = is_ours and memory.get("serving") is True
        going = going_of(self._folder, memory, self._environ)
        if engine is None or is_ours or going is None or (engine.facts.get("engine"), engine.facts.get("manifest")) != (going.engine, going.sha):
            going = None
        if is_ours or going is not None:
            self.real.steps.reader.look_back()
        if bridge is not None and bridge.facts.get("runtime") != os.environ.get("PYTHONPATH", ""):
            self.real.bridges.replace()
        # Nothing is written before this is answered: what others read is still true, and other words would send waiting clients away.
        has_clients = memory.get("holding") is True or memory.get("serving") is True
        self.post(Begin(engine.pid if engine else None, is_ours, was_serving, bridge.pid if bridge else None, going, has_clients))

    async def _decide_for_ever(self) -> None:
        while True:
            event = await self._events.get()
            self.state, effects = decide(self.state, event, time.monotonic())
            self.real.target = self.state.target
            self.following.configure(self.state.target.manifest.supervisor.follow)
            self._project()
            for effect in effects:
                self.real.perform(effect)

    async def _ticks(self) -> None:
        rotated = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            self.post(Tick(processes.age_s(self._parent)))
            self._journal.flush()
            if os.getppid() != self._parent:
                self.post(StopWanted("the guardian is gone"))
            if time.monotonic() - rotated > ROTATE_S:
                rotated = time.monotonic()
                folders.keep_reserve(self._folder)
                for path in self._folder.logs.glob("*.log"):
                    await asyncio.to_thread(logs.rotate, path)

    def _told_to_end(self, number: int) -> None:
        self.real.steps.hurried = self.state.stopping
        self.post(StopWanted(signal.Signals(number).name))

    def _finish(self, runtime: str, code: int) -> None:
        if runtime:
            folders.write_json(self._folder.runtime_file, {"sha256": runtime, "path": str(self._folder.runtime(runtime))})
        if not self._ended.done():
            self._ended.set_result(HAND_OVER if runtime else STOPPED)

    def _project(self) -> None:
        """Write what others read, where it changed. A full disk is told once and does not end the service."""
        clock = Clock(time.monotonic(), time.time())
        document = engine_document(self.state, clock)
        unchanged = {key: value for key, value in document.items() if key != "since"}
        self._write(self._folder.engine_file, unchanged, document)
        if self.state.sequence >= self.following.offered.sequence and not owes(self.state):
            self.following.taken = self.following.offered
        memory = saved(self.state, self._given, self.following.taken)
        self._write(self._folder.memory_file, memory, memory)
        if self.state.target is not self._shown:
            self._shown = self.state.target
            manifest = self._shown.manifest.to_json()
            self._write(self._folder.manifest_file, manifest, manifest)

    def _write(self, path: Path, compared: Any, data: Any) -> None:
        text = json.dumps(compared, sort_keys=True)
        if self._written.get(path) == text:
            return
        try:
            folders.write_json(path, data)
        except OSError as error:
            if self._written.get(path) != f"!{error.errno}":
                self._written[path] = f"!{error.errno}"
                self._journal.write("disk", f"{path} cannot be written: {error.strerror}")
        else:
            self._written[path] = text

    async def _listen(self) -> None:
        try:
            port = folders.status_port(self._environ)
            self._server = await http.serve(port, self._handled)
        except (OSError, ValueError) as error:
            self.note("status", f"no status and no swaps over HTTP: {error}")

    def _handled(self, method: str, path: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
        if (method, path) == ("GET", "/status"):
            return 200, self.status()
        if (method, path) == ("GET", "/journal"):
            count = query.get("lines", "100")
            return 200, {"lines": self._journal.tail(min(int(count), 2000) if count.isdigit() else 100)}
        if (method, path) == ("GET", "/manifest"):
            return self._manifest()
        if (method, path) == ("GET", "/proof"):
            return proof_answer(self._secrets(), resolved(self._environ), query.get("salt", ""))
        if (method, path) == ("POST", "/swap"):
            return self._swap(body)
        if (method, path) == ("POST", "/reload"):
            self.following.ask_now()
            return 202, {"asked": True}
        return 404, {"error": "there are GET /status, GET /journal?lines=N, GET /manifest, GET /proof?salt=HEX, POST /swap and POST /reload"}

    def _manifest(self) -> tuple[int, Any]:
        """The manifest in force as it was published, without this pod's levers."""
        document = folders.read_json(self._folder.manifest(self.state.target.sha))
        return (200, document) if document else (503, {"error": "the manifest in force was not kept: the disk is full or was emptied"})

    def _secrets(self) -> list[str]:
        manifest = self.state.target.manifest
        key = manifest.bridge.api_key_env
        return [secret.env for secret in manifest.supervisor.secrets] + ([key] if key else [])

    def _swap(self, body: bytes) -> tuple[int, Any]:
        with contextlib.suppress(ValueError):
            wanted = json.loads(body)
            if isinstance(wanted, dict) and isinstance(wanted.get("model"), str):
                status, words = swap_answer(self.state, wanted["model"], time.monotonic())
                if status == 202:
                    self.post(SwapWanted(wanted["model"]))
                return status, {"model": wanted["model"], "detail": words} if status == 202 else {"error": words}
        return 400, {"error": 'the body must be {"model": "<engine>"}'}

    def status(self) -> dict[str, Any]:
        """The status document."""
        clock = Clock(time.monotonic(), time.time())
        engine = self.real.children.of("engine")
        facts = {"now": round(clock.wall, 3), "engine_pid": engine.pid if engine else None, "watchdog": self.watching.verdict, "phases": self.phases, "restart_s": restart_s(self._journal.tail(_LOOK_BACK)), "figures": self.real.steps.reader.facts,
                 "state_folder": str(self._folder.path), "state_folder_problem": self._folder.problem, "journal": self._journal.health(), "follow": self.following.last, "mirror": self.mirroring.last,
                 "children": [{"role": c.role, "pid": c.pid} for c in self.real.children.all()], "last": self._journal.tail(_LAST)}  # fmt: skip
        return status_document(self.state, clock, facts)

