"""`python -m pod --manifest FILE supervise`: what is known from before, and then the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pod import folders
from pod.contract import Manifest, ManifestError
from pod.folders import StateFolder
from pod.journal.journal import Journal
from pod.journal.redact import Redactor, secret_values
from pod.levers import LeverError
from pod.patches import upgrades
from pod.supervisor.loop import Supervisor
from pod.supervisor.memory import keep_manifest, restored, taken_of, target_of
from pod.supervisor.state import Fatal, State, Target

THREADS = 24
FAULT = 70


def supervise(path: Path, environ: Mapping[str, str]) -> int:
    """The exit code of one supervisor. Raises ManifestError or OSError where neither the file nor what is kept can be used."""
    folder = folders.state_folder(environ)
    folders.tidy(folder)
    folders.keep_reserve(folder)
    state, given = first_state(path, folder, environ)
    secrets = [secret.env for secret in state.target.manifest.supervisor.secrets]
    journal = Journal(folder.path / "journal", Redactor(secret_values(environ, secrets)))
    gc.collect()
    gc.freeze()  # what was imported stays: the collector need not look at it again
    with asyncio.Runner() as runner:
        async def life() -> int:
            # Threads that wait for an engine that hangs (a proof: 300 s) must not keep the one from working that stops it.
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
            supervisor = Supervisor(state, folder, environ, given, taken_of(folders.read_json(folder.memory_file)), journal)
            try:
                code = await supervisor.run()
            except Exception:
                with contextlib.suppress(OSError):
                    traceback.print_exc()
                code = FAULT
            # Threads may still wait for an engine that is gone; nothing that they could say matters any more.
            os._exit(code)

        return runner.run(life())


def first_state(path: Path, folder: StateFolder, environ: Mapping[str, str]) -> tuple[State, str]:
    """Where the supervisor before left off, else the given manifest; and the hash of the given one."""
    memory, now = folders.read_json(folder.memory_file), time.monotonic()
    try:
        given = Manifest.from_bytes(path.read_bytes())
    except (OSError, ManifestError):
        found = restored(folder, memory, str(memory.get("given")), environ, now)
        if found is None:
            raise
        return _ready(found, folder), str(memory.get("given"))
    sha = given.sha256()
    with contextlib.suppress(OSError):
        keep_manifest(folder, given)
    state = restored(folder, memory, sha, environ, now)
    if state is None:
        try:
            state = State(target=target_of(given, environ), since=now)
        except LeverError as error:
            fatal = Fatal("lever", str(error), "correct the pod's environment and start a new pod")
            state = State(target=Target(given, given.engine.name, sha), since=now, fatal=fatal)
    return _ready(state, folder), sha


def _ready(state: State, folder: StateFolder) -> State:
    running = folders.read_json(folder.runtime_file)
    runtime = str(running["sha256"]) if running.get("path") == os.environ.get("PYTHONPATH") and running.get("sha256") else None
    refused = tuple(folders.read_json(folder.refused_runtimes_file))
    replaced = tuple(map(str, upgrades.read(upgrades.note_of(os.environ)).unproved()))
    return state.but(runtime=runtime, runtime_refused=tuple(dict.fromkeys((*state.runtime_refused, *refused))), upgrades=replaced)
