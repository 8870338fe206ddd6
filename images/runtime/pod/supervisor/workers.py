"""Short-lived child processes: downloads, uploads, checks. Their lines are read as they come, and they end with whoever waits."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
from collections.abc import Callable, Mapping, Sequence

from pod import processes

# Enough for any line that our own programs print; a longer one is cut by its end.
_LINE = 1 << 20
# How much of a worker's error output is kept for the journal.
_KEPT_ERRORS = 4000


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a worker ended: exit code (negative: the signal), its last lines on standard output, and the end of its errors."""

    code: int
    lines: tuple[str, ...]
    errors: str


class Workers:
    """Runs workers under one mark, so that the next supervisor can end those that lost their own."""

    def __init__(self, nonce: str) -> None:
        self._mark = f"worker:{nonce}"

    def end_strays(self) -> int:
        """End workers of a supervisor that died; how many there were."""
        strays = processes.marked_with({self._mark})
        processes.kill(strays)
        return len(strays)

    async def run(self, argv: Sequence[str], env: Mapping[str, str], *, limit_s: float, given: bytes = b"",
                  tell: Callable[[str], None] = lambda line: None) -> Ended:  # fmt: skip
        """Run one to its end. `tell` gets each line. Raises TimeoutError after `limit_s`, OSError when it cannot be started."""
        process = await asyncio.create_subprocess_exec(
            *argv, env={**env, processes.MARK: self._mark}, start_new_session=True, limit=_LINE,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            return await asyncio.wait_for(_spoken(process, given, tell), limit_s)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _spoken(process: asyncio.subprocess.Process, given: bytes, tell: Callable[[str], None]) -> Ended:
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    errors = asyncio.ensure_future(_tail(process.stderr))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(given)
        await process.stdin.drain()
        process.stdin.close()
    lines: list[str] = []
    async for raw in process.stdout:
        line = raw.decode("utf-8", "replace").rstrip("\n")
        lines = [*lines[-50:], line]
        tell(line)
    return Ended(await process.wait(), tuple(lines), await errors)


async def _tail(stream: asyncio.StreamReader) -> str:
    kept = b""
    while chunk := await stream.read(1 << 14):
        kept = (kept + chunk)[-_KEPT_ERRORS:]
    return kept.decode("utf-8", "replace")
