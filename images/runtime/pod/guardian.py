"""The first process of the runtime: it starts the supervisor, starts it again when it dies, and leaves nothing behind.

It holds the endpoint's listening socket, so that no client is refused while anything below it is replaced, and reaps every orphan,
so it may be PID 1. It decides nothing else and imports little, because nothing starts it again.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from pod import folders, processes
from pod.folders import StateFolder

LISTEN_FD = 3
# The supervisor's exit codes that are no failure.
STOPPED, HAND_OVER = 0, 75
# Another runtime works in the same folder: two would adopt and end each other's processes.
OCCUPIED = 69
# Pauses before the supervisor is started again: the first death may be anything, a row of them is a fault in the program.
PAUSES_S = (0.0, 0.5, 2.0, 5.0, 10.0)
# A supervisor that lived this long was in order when it started.
SETTLED_S = 60.0
# Deaths of a published runtime right after its start, after which the runtime before it is used again.
RUNTIME_TRIES = 3
# Bounds the end: the bridge drains for 25 s and the engine ends in 20 s, at the same time, plus the GPU's memory and the last upload.
STOP_LIMIT_S = 75.0
# Bounds the grace of processes that are still there when the supervisor is not.
LEFTOVER_S = 5.0
_WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)
_PR_SET_CHILD_SUBREAPER = 36


class Guardian:
    """One life. `manifest` is the file that the bootstrap verified."""

    def __init__(self, manifest: Path, environ: Mapping[str, str], folder: StateFolder) -> None:
        self._manifest, self._folder = manifest, folder
        self._environ = {**environ, folders.STATE_ENV: str(folder.path), folders.PROBLEM_ENV: folder.problem}
        self._nonce = folders.nonce(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._runtime_deaths = 0
        self._started = 0.0
        self._start_at: float | None = 0.0
        self._stop_by: float | None = None
        self._mask: set[signal.Signals] = set()

    def run(self) -> int:
        """The exit code of the pod: 0 when it was told to end and everything ended. The endpoint's socket is descriptor 3 where
        LISTEN_FDS says so."""
        self._environ.pop("LISTEN_PID", None)
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED))  # type: ignore[arg-type]
        adopt_orphans()
        while True:
            now = time.monotonic()
            if self._stop_by is not None and (self._process is None or now >= self._stop_by):
                return self._end()
            if self._start_at is not None and now >= self._start_at and self._stop_by is None:
                self._start()
            self._wait()

    def _wait(self) -> None:
        ends = [at for at in (self._stop_by, self._start_at) if at is not None]
        left = max(0.0, min(ends) - time.monotonic()) if ends else None
        caught = signal.sigwaitinfo(_WATCHED) if left is None else signal.sigtimedwait(_WATCHED, left)
        if caught is None or caught.si_signo == signal.SIGCHLD:
            self._reap()
        elif caught.si_signo in (signal.SIGTERM, signal.SIGINT):
            self._told_to_end(signal.Signals(caught.si_signo).name)

    def _start(self) -> None:
        self._start_at, self._started = None, time.monotonic()
        path = folders.read_json(self._folder.runtime_file).get("path")
        environ = dict(self._environ)
        if isinstance(path, str) and Path(path, "pod", "__main__.py").is_file():
            environ["PYTHONPATH"] = path
        argv = [sys.executable, "-m", "pod", "--manifest", str(self._manifest), "supervise"]
        # The supervisor must not inherit the blocked mask: it could not be told to end.
        self._process = subprocess.Popen(argv, env={**environ, processes.MARK: f"supervisor:{self._nonce}"}, start_new_session=True,
                                         pass_fds=(LISTEN_FD,) if "LISTEN_FDS" in environ else (),
                                         preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, self._mask))  # fmt: skip

    def _reap(self) -> None:
        for pid, code in processes.reap_all():
            if self._process is not None and pid == self._process.pid:
                self._process.returncode = code
                self._process = None
                self._supervisor_ended(code)

    def _supervisor_ended(self, code: int) -> None:
        if self._stop_by is not None:
            return
        if code == HAND_OVER:
            self._deaths = self._runtime_deaths = 0
            self._start_at = time.monotonic()
            return
        lived = time.monotonic() - self._started
        self._deaths = 0 if lived >= SETTLED_S else self._deaths
        self._runtime_deaths = 0 if lived >= SETTLED_S else self._runtime_deaths + 1
        self._maybe_leave_runtime()
        pause = PAUSES_S[min(self._deaths, len(PAUSES_S) - 1)]
        self._deaths += 1
        say(f"the supervisor ended with {code} after {lived:.0f} s; engine and bridge go on; started again in {pause:g} s")
        self._start_at = time.monotonic() + pause

    def _maybe_leave_runtime(self) -> None:
        published = folders.read_json(self._folder.runtime_file)
        if not published or self._runtime_deaths < RUNTIME_TRIES:
            return
        refused = folders.read_json(self._folder.refused_runtimes_file)
        folders.write_json(self._folder.refused_runtimes_file, {**refused, str(published.get("sha256")): "ended again and again after its start"})
        self._folder.runtime_file.unlink(missing_ok=True)
        self._runtime_deaths = 0
        say("the published runtime does not stay up; the image's own is used again")

    def _told_to_end(self, name: str) -> None:
        say(f"{name}: {'stopping everything' if self._stop_by is None else 'no more patience'}")
        if self._stop_by is None:
            self._stop_by = time.monotonic() + STOP_LIMIT_S
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def _end(self) -> int:
        """Whatever is left, of every kind: first asked, then killed, all reaped."""
        for number, limit in ((signal.SIGTERM, LEFTOVER_S), (signal.SIGKILL, processes.GONE_S)):
            deadline = time.monotonic() + limit
            while (left := self._leftovers()) and time.monotonic() < deadline:
                for pid in left:
                    _signal(pid, number)
                time.sleep(processes.LOOK_S)
                processes.reap_all()
        left = self._leftovers()
        say(f"processes that even KILL did not end: {sorted(left)}" if left else "everything has ended")
        return 1 if left else STOPPED

    def _leftovers(self) -> set[int]:
        stats = processes.all_stats()
        found = processes.marked_with({f"{role}:{self._nonce}" for role in processes.ROLES})
        found |= {stat.pid for stat in stats if stat.parent == os.getpid()}
        while more := {stat.pid for stat in stats if stat.parent in found} - found:
            found |= more
        return found - processes.ancestry()


def adopt_orphans() -> None:
    """Make every orphan below this process its child, as PID 1's are."""
    if os.getpid() != 1:
        import ctypes  # PID 1 does without

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def become(manifest: Path, environ: Mapping[str, str], folder: StateFolder, listener: int | None) -> NoReturn:
    """Turn this process into a guardian that holds nothing but what it needs: it lives as long as the pod."""
    told = {**environ, folders.STATE_ENV: str(folder.path), folders.PROBLEM_ENV: folder.problem}
    told.pop("LISTEN_FDS", None)
    if listener is not None:
        os.dup2(listener, LISTEN_FD)
        os.set_inheritable(LISTEN_FD, True)
        told["LISTEN_FDS"] = "1"
    os.execve(sys.executable, [sys.executable, "-m", "pod.guardian", str(manifest)], told)


def say(message: str) -> None:
    """A line for the container's log."""
    try:
        print(f"[guardian] {message}", file=sys.stderr, flush=True)
    except OSError:  # a log whose disk is full must not end the pod
        return


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def main() -> int:
    """The exit code of one guardian in its folder."""
    folder = folders.state_folder(os.environ)
    lock = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        say(f"another runtime works in {folder.path}; end it, or set {folders.STATE_ENV} to another folder")
        return OCCUPIED
    return Guardian(Path(sys.argv[1]), os.environ, folder).run()


if __name__ == "__main__":
    sys.exit(main())
