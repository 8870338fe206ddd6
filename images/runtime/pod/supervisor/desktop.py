"""The remote desktop beside the engine: started once the first start of the engine is over, and again when it ends. Nothing waits for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping

from pod import desktop, processes
from pod.folders import StateFolder
from pod.launch import resolved
from pod.levers import LISTEN_ENV
from pod.supervisor.children import Child, Children
from pod.supervisor.state import State

# How often it is looked at.
LOOK_S = 3.0
# The desktop waits for the engine's first start, which needs every core; a start that takes longer than this has it anyway.
LATEST_S = 300.0
# Pauses before one that ended is started again.
PAUSES_S = (0.0, 5.0, 30.0, 120.0)
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TERM", "PYTHONPATH")


class Desktops:
    """At most one. Never raises: a desktop that cannot be had is said once and is nobody's fault."""

    def __init__(self, folder: StateFolder, environ: Mapping[str, str], children: Children, state: Callable[[], State], note: Callable[..., None]) -> None:
        self._folder, self._environ, self._children, self._state, self._note = folder, environ, children, state, note
        self._deaths = 0

    async def run(self) -> None:
        """For ever, as every part of the supervisor."""
        if self._state().target.manifest.pod.desktop is None:  # another answer takes another pod
            await asyncio.Event().wait()
        began = _now()
        while not (self._children.of("desktop") or self._engine_is_settled() or _now() - began > LATEST_S):
            await asyncio.sleep(LOOK_S)
        while child := self._children.of("desktop") or self._started():
            began = _now()
            while child in self._children.all():
                await asyncio.sleep(LOOK_S)
            self._deaths = 0 if _now() - began > PAUSES_S[-1] else self._deaths + 1
            await asyncio.sleep(PAUSES_S[min(self._deaths, len(PAUSES_S) - 1)])
        await asyncio.Event().wait()

    def _engine_is_settled(self) -> bool:
        return self._state().serving or self._state().name in ("fatal", "degraded")

    def _started(self) -> Child | None:
        """A new one; None where there is to be none, for as long as this pod lives."""
        wanted = self._state().target.manifest.pod.desktop
        if wanted is None or self._state().stopping:
            return None
        given = resolved(self._environ)
        password, absent = given.get(wanted.password_env, "").strip(), desktop.missing(given.get("PATH"))
        argv = [sys.executable, "-m", "pod.desktop", "--host", self._environ.get(LISTEN_ENV) or "0.0.0.0", "--port", str(wanted.port),
                "--folder", str(self._folder.path / "desktop")]  # fmt: skip
        why = f"the secret {wanted.password_env} is empty, and a desktop without a password is not started" if not password else ""
        why = why or (f"this image lacks {', '.join(absent)}" if absent else "")
        child = None
        if not why:
            processes.kill(processes.marked_with({self._children.mark("desktop")}))  # of one that was killed, they hold the port
            try:
                env = {name: value for name, value in given.items() if name in _PASSED} | {desktop.PASSWORD_ENV: password}
                child = self._children.start("desktop", argv, env, self._folder.logs / "desktop.log")
            except OSError as error:
                why = error.strerror or str(error)
        if child is None:
            self._note("desktop", f"no remote desktop: {why}")
            return None
        self._note("desktop", f"the remote desktop is on port {wanted.port}" + (
            f"; of its password only the first {desktop.PASSWORD_LENGTH} characters count" if len(password) > desktop.PASSWORD_LENGTH else ""), pid=child.pid)  # fmt: skip
        return child


def _now() -> float:
    return asyncio.get_running_loop().time()
