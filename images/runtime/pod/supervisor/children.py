"""The supervisor's long-lived children: started, watched until they end, and adopted by the supervisor that comes after."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pod import folders, processes
from pod.folders import StateFolder
from pod.processes import Identity, Stopped

# Where the kernel gives no descriptor of a process, how often it is looked at.
LOOK_S = 0.5
Ended = Callable[["Child", "int | None"], None]


@dataclasses.dataclass(eq=False)
class Child:
    """One process. `facts` is what the next supervisor must know of it; `process` is None for an adopted one."""

    role: str
    identity: Identity
    facts: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.identity.pid


class Children:
    """All of them. `ended` is called once for each that ends, with its exit code where it is known."""

    def __init__(self, folder: StateFolder, nonce: str, ended: Ended) -> None:
        self._folder, self._nonce, self._ended = folder, nonce, ended
        self._living: list[Child] = []
        self._looks: dict[Child, asyncio.Task[None]] = {}
        self._gone_engines: list[Identity] = []
        self.abandoned: set[str] = set()
        """Files of children that are gone (see `pod.belongings`), to be removed before the next start."""

    def start(self, role: str, argv: Sequence[str], env: Mapping[str, str], log: Path, facts: Mapping[str, Any] | None = None,
              descriptors: Sequence[int] = ()) -> Child:  # fmt: skip
        """Start one and watch it. Raises OSError when it cannot be started."""
        mark = self.mark(role)
        process = processes.start(argv, env, log, mark, descriptors)
        identity = processes.identity_of(process.pid, argv, mark) or Identity(process.pid, 0, "", mark)
        child = Child(role, identity, dict(facts or {}), process)
        self._watch(child)
        return child

    def adopt(self) -> list[Child]:
        """The children of the supervisor before that still live."""
        known = folders.read_json(self._folder.children_file)
        for row in known.get("children", []):
            with contextlib.suppress(TypeError, KeyError):
                child = Child(str(row["role"]), Identity(**row["identity"]), dict(row["facts"]))
                if child.identity.mark.endswith(f":{self._nonce}") and processes.is_alive(child.identity):
                    self._watch(child)
                else:
                    self._forget(child)
        for row in known.get("gone_engines", []):
            with contextlib.suppress(TypeError):
                self._gone_engines.append(Identity(**row))
        self._save()
        return list(self._living)

    async def end_left_of_engines(self) -> set[int]:
        """Kill what engines that are gone have left running, wait until it is gone, too, and give the ids."""
        gone, loop = tuple(self._gone_engines), asyncio.get_running_loop()
        left = await loop.run_in_executor(None, processes.left_of, self.mark("engine"), gone)
        if left:
            processes.kill(left)
            await loop.run_in_executor(None, processes.wait_gone, left)
        self._gone_engines = [engine for engine in self._gone_engines if engine not in gone]
        self._save()
        return left

    def mark(self, role: str) -> str:
        """The mark of a role's processes."""
        return f"{role}:{self._nonce}"

    def of(self, role: str) -> Child | None:
        """The living child of a role, the youngest where there are two."""
        return next((child for child in reversed(self._living) if child.role == role), None)

    def all(self) -> tuple[Child, ...]:
        """Every living child."""
        return tuple(self._living)

    def note(self, child: Child, **facts: Any) -> None:
        """Change what the next supervisor will know of a child."""
        child.facts.update(facts)
        self._save()

    async def stop(self, child: Child, grace_s: float = processes.STOP_GRACE_S, hurried: Callable[[], bool] = lambda: False) -> Stopped:
        """Stop one with everything that belongs to it, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, processes.stop, child.identity, grace_s, hurried)

    def signal(self, child: Child, number: signal.Signals) -> None:
        """Tell one something; one that is gone already is fine."""
        if processes.is_alive(child.identity):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, number)

    def _watch(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        self._living.append(child)
        self._save()
        try:
            descriptor = os.pidfd_open(child.pid)
        except OSError:
            self._looks[child] = loop.create_task(self._looked_at(child))
            return

        def gone() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._gone(child)

        loop.add_reader(descriptor, gone)

    async def _looked_at(self, child: Child) -> None:
        while processes.is_alive(child.identity):
            await asyncio.sleep(LOOK_S)
        self._gone(child)

    def _gone(self, child: Child) -> None:
        code = None if child.process is None else child.process.wait()
        self._living.remove(child)
        self._forget(child)
        self._looks.pop(child, None)
        self._save()
        self._ended(child, code)

    def _forget(self, child: Child) -> None:
        """What one that is gone may have left is remembered: files, and an engine's other processes."""
        self.abandoned.update(map(str, child.facts.get("files", ())))
        if child.role == "engine":
            self._gone_engines.append(child.identity)

    def _save(self) -> None:
        rows = [{"role": c.role, "identity": dataclasses.asdict(c.identity), "facts": c.facts} for c in self._living]
        with contextlib.suppress(OSError):  # a full disk must not end the supervisor; the next one then finds them by their mark
            gone = [dataclasses.asdict(engine) for engine in self._gone_engines]
            folders.write_json(self._folder.children_file, {"children": rows, "gone_engines": gone})
