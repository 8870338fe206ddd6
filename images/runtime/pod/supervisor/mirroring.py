"""The journal's copy on the Hub: made when it is due, uploaded by a worker. Nothing that fails here touches the service."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pod import gpu
from pod.folders import StateFolder
from pod.hub import child as hub_child
from pod.journal import mirror
from pod.journal.journal import Journal
from pod.supervisor.state import State
from pod.supervisor.views import detail_of
from pod.supervisor.workers import Workers
from pod.watchdog import probe

LOOK_S = 1.0
# Bounds one upload; the next copy is newer anyway.
UPLOAD_S = 120.0
LINES = 400


class Mirroring:
    """Copies. `state` gives the state as it is, `last` says how the last copy ended."""

    def __init__(self, folder: StateFolder, environ: Mapping[str, str], workers: Workers, journal: Journal, state: Callable[[], State]) -> None:
        self._folder, self._environ, self._workers, self._journal, self._state = folder, environ, workers, journal, state
        self._settings: Any = None
        self._schedule: mirror.Schedule | None = None
        self._failing = False
        self.last = "off"

    async def run(self) -> None:
        """Copy for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            state = self._state()
            self._configure(state)
            if self._schedule is not None and not state.stopping and self._schedule.due(time.monotonic(), _kind(state)):
                await self._copied(self._schedule, self._settings.repo, state)

    async def copy(self) -> None:
        """A copy now: afterwards there may be no pod to ask."""
        state = self._state()
        self._configure(state)
        if self._schedule is not None:
            self._schedule.due(time.monotonic(), _kind(state))
            await self._copied(self._schedule, self._settings.repo, state)

    def _configure(self, state: State) -> None:
        settings = state.target.manifest.supervisor.journal
        if settings != self._settings:
            self._settings = settings
            self._schedule = mirror.Schedule(settings.boot_period_s, settings.period_s) if settings and self._environ.get("HF_TOKEN") else None
            self.last = "waiting" if self._schedule else "off: no token" if settings else "off"

    async def _copied(self, schedule: mirror.Schedule, repo: str, state: State) -> None:
        text = await self._document(state)
        if not schedule.wanted(time.monotonic(), text):
            return
        path = mirror.path_in_repo(self._pod_id, fatal=_kind(state) == "fatal")
        problem = await self._uploaded(repo, path, text)
        if problem:
            schedule.failed(time.monotonic())
            if not self._failing:
                self._journal.write("mirror", f"the journal's copy on the Hub failed, the service goes on: {problem}")
        else:
            schedule.copied(time.monotonic(), text)
        self._failing, self.last = bool(problem), problem or f"copied to {repo}/{path}"

    @property
    def _pod_id(self) -> str:
        return self._environ.get("RUNPOD_POD_ID") or self._environ.get("HOSTNAME") or "pod"

    async def _document(self, state: State) -> str:
        target, redactor, logs = state.target, self._journal.redactor, self._folder.logs
        port = target.spec.launch.port
        counters = await asyncio.to_thread(probe.metrics, port) if state.engine_up else None
        subject = mirror.Subject(self._pod_id, target.manifest.profile, target.manifest.pod.release, state.name, detail_of(state), port)

        def made() -> str:
            return mirror.document(
                time.time(), subject, self._journal.tail(LINES), gpu.table(), counters, mirror.end_of(logs / "engine.log", mirror.ENGINE_BYTES, redactor),
                mirror.end_of(logs / "bridge.log", mirror.BRIDGE_BYTES, redactor), redactor,
            )  # fmt: skip

        return await asyncio.to_thread(made)

    async def _uploaded(self, repo: str, path: str, text: str) -> str:
        with tempfile.NamedTemporaryFile("w", prefix="podwright-journal-", suffix=".log", delete=False) as file:
            file.write(text)
        try:
            argv = hub_child.argv("upload", sys.executable, repo=repo, path=path, source=file.name, message=f"Journal of {self._pod_id}", create=True)
            ended = await self._workers.run(argv, hub_child.environment(self._environ), limit_s=UPLOAD_S)
        except TimeoutError:
            return f"not done within {UPLOAD_S:.0f} s"
        except OSError as error:
            return str(error)
        finally:
            Path(file.name).unlink(missing_ok=True)
        outcome = next((line for said in reversed(ended.lines) if isinstance(line := hub_child.parsed(said), hub_child.Outcome)), None)
        outcome = outcome or hub_child.vanished(ended.code, ended.errors)
        return "" if outcome.is_ok else outcome.detail


def _kind(state: State) -> mirror.State:
    return "fatal" if state.name == "fatal" else "serving" if state.name == "serving" else "booting"
