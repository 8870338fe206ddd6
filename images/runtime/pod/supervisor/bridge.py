"""The bridge's processes: started on the socket that the guardian holds, told of new settings, replaced without a refused connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pod import processes
from pod.folders import DEFAULT_STATUS_PORT, STATUS_PORT_ENV, StateFolder
from pod.guardian import LISTEN_FD
from pod.journal.engine_log import COMPLAINT_CHARACTERS, tail_of
from pod.launch import resolved
from pod.supervisor.children import Child, Children
from pod.supervisor.events import BridgeExited, BridgeStarted
from pod.watchdog import probe

ENGINE_FILE_ENV = "PODWRIGHT_ENGINE_STATE"
# What the bridge prints once it listens: with two processes on one socket, a health check could be answered by the other.
_READY = b"://"
# Bounds a bridge's start, which takes a third of a second on an idle core.
START_S = 20.0
_LAST_BYTES = 4096
LOOK_S = 0.05
# Bounds the end of a bridge: it lets streams finish for 25 s by itself.
STOP_S = 28.0


class Bridges:
    """Starts, replaces and ends bridges. `post` gets what became of them, `note` writes the journal."""

    def __init__(self, folder: StateFolder, environ: Mapping[str, str], children: Children, post: Callable[[Any], None], note: Callable[..., None]) -> None:
        self._folder, self._environ, self._children, self._post, self._note = folder, environ, children, post, note
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def log(self) -> Path:
        """Where a bridge's output goes."""
        return self._folder.logs / "bridge.log"

    def last_line(self) -> str:
        """What the log ends with."""
        lines = tail_of(self.log, _LAST_BYTES).strip().splitlines()
        return lines[-1][:COMPLAINT_CHARACTERS] if lines else ""

    def start(self, delay_s: float) -> None:
        """Start one after a delay."""
        self._spawn(self._started(delay_s, None))

    def replace(self) -> None:
        """Start a new one on the same socket, then let the old one finish."""
        self._spawn(self._started(0.0, self._children.of("bridge")))

    def reload(self) -> None:
        """Have the bridge read its manifest again; it would see the new file by itself a little later."""
        bridge = self._children.of("bridge")
        if bridge is not None:
            self._children.signal(bridge, signal.SIGHUP)

    def kill(self, pid: int) -> None:
        """End one that hangs, its log kept for whoever asks why."""
        with contextlib.suppress(OSError):
            shutil.copyfile(self.log, self.log.with_name("bridge.hung.log"))
        processes.kill([pid])

    async def stop(self) -> None:
        """End all of them; each lets its streams finish for a while."""
        bridges = [child for child in self._children.all() if child.role == "bridge"]
        await asyncio.gather(*(self._children.stop(bridge, STOP_S) for bridge in bridges))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _started(self, delay_s: float, old: Child | None) -> None:
        await asyncio.sleep(delay_s)
        has_socket = self._environ.get("LISTEN_FDS") == "1"
        offset = self.log.stat().st_size if self.log.exists() else 0
        argv = [sys.executable, "-m", "pod.bridge", "--manifest", str(self._folder.manifest_file)]
        try:
            child = self._children.start("bridge", argv, self._env(has_socket), self.log, {"runtime": os.environ.get("PYTHONPATH", "")},
                                         (LISTEN_FD,) if has_socket else ())  # fmt: skip
        except OSError as error:
            self._post(BridgeExited(0, None))
            self._note("bridge", f"the bridge cannot be started: {error.strerror}")
            return
        # The newest is the one whose end matters, also when it ends before it was ready.
        self._post(BridgeStarted(child.pid))
        if await self._is_ready(child, offset) and old is not None:
            self._children.signal(old, signal.SIGQUIT)
            self._note("bridge", f"bridge {child.pid} took over from {old.pid}, which finishes its streams")

    def _env(self, has_socket: bool) -> dict[str, str]:
        kept = {name: value for name, value in resolved(self._environ).items() if name not in ("LISTEN_FDS", "LISTEN_PID", processes.MARK)}
        port = self._environ.get(STATUS_PORT_ENV) or str(DEFAULT_STATUS_PORT)
        return {**kept, ENGINE_FILE_ENV: str(self._folder.engine_file), STATUS_PORT_ENV: port, **({"LISTEN_FDS": "1"} if has_socket else {})}

    async def _is_ready(self, child: Child, offset: int) -> bool:
        deadline = asyncio.get_running_loop().time() + START_S
        while asyncio.get_running_loop().time() < deadline and processes.is_alive(child.identity):
            with contextlib.suppress(OSError), self.log.open("rb") as stream:
                stream.seek(offset)
                if _READY in stream.read():
                    return True
            await asyncio.sleep(LOOK_S)
        return False


async def is_healthy(port: int) -> bool:
    """Whether a bridge answers its own health question, which never asks the engine."""
    return await asyncio.to_thread(probe.health, port)
