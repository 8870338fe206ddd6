"""The memory of the GPUs as the driver shows it, of all of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

# Bounds one question to the driver; a sick host makes nvidia-smi hang for minutes.
ASK_S = 10.0
# Bounds the wait for memory after a stop. The source deployments waited as long; longer means that something holds it.
FREE_S = 90.0
# A card without a model shows well below this (contexts, a desktop); one with a model far above. From the source deployments.
FREE_BELOW_MIB = 3000
# What other programs used before our first start may grow a little without keeping us waiting.
SLACK_MIB = 1024
LOOK_S = 2.0

Ask = Callable[[], "tuple[int, ...] | None"]


def used_mib() -> tuple[int, ...] | None:
    """MiB in use on each GPU, or None where no driver answers (a machine without GPU, or a sick one)."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False, start_new_session=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parsed_mib(done.stdout) if done.returncode == 0 else None


def parsed_mib(text: str) -> tuple[int, ...] | None:
    """The numbers in nvidia-smi's answer; None when there are none or one is no number (`[N/A]` on a sick card)."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return tuple(map(int, lines)) if lines and all(line.isdigit() for line in lines) else None


def is_free(used: tuple[int, ...], before: tuple[int, ...] | None) -> bool:
    """Whether every card is free: below what a model takes, or about as full as before our first engine."""
    limits = [max(FREE_BELOW_MIB, mib + SLACK_MIB) for mib in before] if before and len(before) == len(used) else [FREE_BELOW_MIB] * len(used)
    return all(mib < limit for mib, limit in zip(used, limits, strict=True))


def wait_free(before: tuple[int, ...] | None, limit_s: float = FREE_S, ask: Ask = used_mib, sleep: Callable[[float], None] = time.sleep,
              now: Callable[[], float] = time.monotonic) -> tuple[bool, tuple[int, ...] | None]:  # fmt: skip
    """Wait until the memory of all cards is free: (free in time, MiB seen last). Without a driver there is nothing to wait for."""
    deadline = now() + limit_s
    while True:
        used = ask()
        if used is None or is_free(used, before):
            return True, used
        if now() >= deadline:
            return False, used
        sleep(LOOK_S)


def identity() -> tuple[str | None, tuple[str, ...]]:
    """The driver's version and the name of each GPU; (None, ()) where no driver answers."""
    rows = [line.split(", ", 1) for line in _asked("driver_version,name").splitlines() if ", " in line]
    return (rows[0][0].strip(), tuple(name.strip() for _, name in rows)) if rows else (None, ())


def table() -> str:
    """One line a GPU for people: number, name, memory in use and in all, load, temperature; empty where no driver answers."""
    return _asked("index,name,memory.used,memory.total,utilization.gpu,temperature.gpu")


def _asked(fields: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=False, start_new_session=True)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
