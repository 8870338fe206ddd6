"""A headless Chromium that is told what to do over pipes: no port, no driver, no library."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
# Bounds one answer of the browser on a machine that others use, too.
ANSWER_S = 60.0


class Browser:
    """One browser with one page."""

    def __init__(self, folder: Path) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        words = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={folder}"]

        def at_three_and_four() -> None:
            os.dup2(to_read, 30)
            os.dup2(to_write, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=at_three_and_four, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self._rest, self._number = b"", 0
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def open(self, url: str) -> None:
        """Load a page."""
        self._ask("Page.navigate", self._session, url=url)

    def value(self, expression: str) -> Any:
        """What an expression of the page's own language is worth."""
        found = self._ask("Runtime.evaluate", self._session, expression=expression, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

    def until(self, expression: str, seconds: float = ANSWER_S) -> bool:
        """Whether an expression becomes true in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.value(expression) is True:
                return True
            time.sleep(0.2)
        return False

    def _ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        question = {"id": self._number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._to, json.dumps(question).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_S
        while True:
            message = self._next(deadline)
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            chunk = os.read(self._from, 1 << 16)
            assert chunk, "the browser has ended"
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, of which nothing is left."""
    with tempfile.TemporaryDirectory(prefix="podwright-browser-", ignore_cleanup_errors=True) as folder:
        started = Browser(Path(folder))
        try:
            yield started
        finally:
            os.killpg(started.process.pid, signal.SIGKILL)  # a browser is a dozen processes, and each writes into the folder
            started.process.wait()
            os.close(started._to)
            os.close(started._from)
            time.sleep(0.2)
