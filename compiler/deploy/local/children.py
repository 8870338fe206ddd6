"""Child processes that end with us, whatever ends us, and what is left of them."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# Between two signs of life of something that takes long.
TICK_S = 15.0


def dying_with_us(number: signal.Signals) -> Callable[[], None]:
    """What a child does before it becomes its program: it asks the kernel for a signal when we are gone, even by KILL."""
    libc, parent = ctypes.CDLL(None, use_errno=True), os.getpid()

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if os.getppid() != parent:
            os._exit(1)

    return ask


def run_to_the_end(argv: Sequence[str], env: Mapping[str, str], log: Path, tick: Callable[[], None]) -> int:
    """Run a program with its output in `log`; its exit code. It ends with us. `tick` is called every 15 s."""
    with log.open("ab") as stream:
        process = subprocess.Popen(argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True, preexec_fn=dying_with_us(signal.SIGKILL))
    try:
        while True:
            try:
                return process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                tick()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def left_of(state: Path) -> set[int]:
    """Living processes of the runtime whose state folder this is, by the mark that it gives each of its children."""
    try:
        nonce = str(json.loads((state / "nonce").read_text("utf-8"))["nonce"])
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {pid for pid in _pids() if _mark(pid).endswith(f":{nonce}".encode()) and _lives(pid)}


def kill(pids: Iterable[int]) -> None:
    """KILL to each; one that is gone already is fine."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _mark(pid: int) -> bytes:
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
    return next((part for part in data.split(b"\0") if part.startswith(b"PODWRIGHT_CHILD=")), b"")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False
