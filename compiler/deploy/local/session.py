"""From the start of a run to its end: what it is doing is told, signals end it, and nothing of it is left."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable

from compiler.deploy.failures import LocalRunFailed
from compiler.deploy.local.run import Run, Seen

Say = Callable[[str], None]
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How often a run is looked at: while it starts often enough to show each phase, in service rarely enough to cost nothing.
STARTING_S, SERVING_S = 0.5, 2.0
# Bounds the end of what is killed because it outlived the run.
KILLED_S = 15.0
_TAIL_LINES, _TAIL_WIDTH = 10, 300


class Session:
    """One run. `serving` is called once, when the first request would be answered."""

    def __init__(self, run: Run, say: Say, serving: Callable[[Seen, float], None]) -> None:
        self._run, self._say, self._serving = run, say, serving
        self._began = time.monotonic()
        self._shown = ""
        self._served = False

    def stay(self) -> None:
        """Serve until a signal asks for the end, then end everything. Raises LocalRunFailed where it cannot be served, after the same end."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            process = self._run.start()
            try:
                self._until_told(process)
            finally:
                self._end(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _until_told(self, process: subprocess.Popen[bytes]) -> None:
        while True:
            caught = signal.sigtimedwait(_ENDING, SERVING_S if self._served else STARTING_S)
            if caught is not None:
                self._say(f"{signal.Signals(caught.si_signo).name}: stopping everything; once more ends the patience")
                return
            if process.poll() is not None:
                raise LocalRunFailed(f"it ended by itself with {process.returncode}", f"Its log ends:\n{self._tail()}", f"{self._run.log} holds all of it.")
            seen = self._run.look()
            self._show(seen)
            if seen.failure is not None:
                raise LocalRunFailed(seen.failure[0], f"Its log ends:\n{self._tail()}", seen.failure[1] or f"{self._run.log} holds all of it.")
            if seen.serves and not self._served:
                self._served = True
                self._serving(seen, time.monotonic() - self._began)

    def _show(self, seen: Seen) -> None:
        """A line for each change, with the seconds since the start."""
        text = f"{seen.state}: {seen.detail}" if seen.detail else seen.state
        if text != self._shown and (text != "serving" or not self._served):
            self._say(f"{time.monotonic() - self._began:5.0f} s  {text}")
        self._shown = text

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """TERM, again with each further signal of the user's; what is left after that is killed. Says so when nothing is."""
        began = time.monotonic()
        if process.poll() is None:
            process.terminate()
        while process.poll() is None and time.monotonic() - began < self._run.limit_s:
            if signal.sigtimedwait(_ENDING, 0.1) is not None and process.poll() is None:
                process.terminate()
        if process.poll() is None:
            process.kill()
            process.wait()
        while self._run.left() and time.monotonic() - began < self._run.limit_s + KILLED_S:
            self._run.remove()
            time.sleep(0.1)
        left = self._run.left()
        if left:
            raise LocalRunFailed(f"still there: {', '.join(left)}", "Even KILL did not end it.", "End it by hand.")
        self._say(f"everything has ended, {time.monotonic() - began:.1f} s after it was told to; no process is left")

    def _tail(self) -> str:
        try:
            return "\n".join(line[:_TAIL_WIDTH] for line in self._run.log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:])
        except OSError:
            return ""
