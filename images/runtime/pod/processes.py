"""Processes of the pod: started in a group of their own, told apart for certain, stopped whole.

A process is known by its id *and* its start time, so that an id which the kernel gave away again is never signalled. What
outlives its group is found by walking /proc: by session, by descent, or by a mark in its environment, which a program that writes a
title over its command line (vLLM's engine core does) also writes over. Never by a pattern of its name, and never our own ancestry.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

# Bounds how long an engine may take to finish after TERM; vLLM frees its GPU memory in it. The source deployments used the same.
STOP_GRACE_S = 20.0
# Bounds how long killed processes may take to disappear; only an uninterruptible system call (a driver at work) takes longer.
GONE_S = 10.0
# Between two looks while a group ends: short against the 20 s, long against the cost of walking /proc.
LOOK_S = 0.05
MARK = "PODWRIGHT_CHILD"
# What a process is to the runtime: the part of its mark before the colon.
ROLES = ("supervisor", "engine", "bridge", "kv-store", "worker", "desktop")
_PROC = Path("/proc")


@dataclasses.dataclass(frozen=True)
class Identity:
    """A process for certain. `started` is in clock ticks since the machine's boot; `mark` the value of PODWRIGHT_CHILD."""

    pid: int
    started: int
    argv_sha256: str
    mark: str


@dataclasses.dataclass(frozen=True)
class Stat:
    """What /proc says about a process."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int


@dataclasses.dataclass(frozen=True)
class Stopped:
    """What stopping took: seconds, whether KILL was needed, and how many processes outlived their group."""

    seconds: float
    was_killed: bool
    stragglers: int
    survivors: tuple[int, ...]


def hash_of(argv: Sequence[str]) -> str:
    """The hash by which a command line is recognised."""
    import hashlib  # the guardian, which lives for ever, must stay small

    return hashlib.sha256("\0".join(argv).encode("utf-8", "surrogateescape")).hexdigest()


def start(argv: Sequence[str], env: Mapping[str, str], log: Path, mark: str, descriptors: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start a program in a session and group of its own, its output appended to `log`. Raises OSError when it cannot be.

    The log is a file and no pipe, so that the process outlives the supervisor that started it.
    """
    with log.open("ab") as stream:
        return subprocess.Popen(list(argv), env={**env, MARK: mark}, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                                start_new_session=True, pass_fds=tuple(descriptors))  # fmt: skip


def identity_of(pid: int, argv: Sequence[str], mark: str) -> Identity | None:
    """The identity of a process that was just started; None when it is gone already."""
    stat = stat_of(pid)
    return Identity(pid, stat.started, hash_of(argv), mark) if stat else None


def age_s(pid: int) -> float:
    """Seconds since a process started, by a clock that nobody sets; 0 when it is gone."""
    stat = stat_of(pid)
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - stat.started / os.sysconf("SC_CLK_TCK")) if stat else 0.0


def stat_of(pid: int) -> Stat | None:
    """What /proc says about a process, or None when there is none."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return Stat(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def is_alive(identity: Identity) -> bool:
    """Whether that very process exists and is more than a zombie."""
    stat = stat_of(identity.pid)
    return stat is not None and stat.started == identity.started and stat.state not in "ZX"


def all_stats() -> list[Stat]:
    """Every process that can be seen, zombies left out."""
    found = (stat_of(int(entry.name)) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [stat for stat in found if stat is not None and stat.state not in "ZX"]


def ancestry(pid: int | None = None) -> set[int]:
    """A process and all that it descends from."""
    found: set[int] = set()
    at: int | None = os.getpid() if pid is None else pid
    while at and at not in found:
        found.add(at)
        stat = stat_of(at)
        at = stat.parent if stat else None
    return found


def marks_of(pid: int) -> str:
    """The mark in a process's environment; empty when it has none or may not be read."""
    try:
        data = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return ""
    prefix = f"{MARK}=".encode()
    return next((part[len(prefix) :].decode("utf-8", "replace") for part in data.split(b"\0") if part.startswith(prefix)), "")


def family(identity: Identity) -> set[int]:
    """Living processes that belong to a leader, dead or alive: its group, its session, their descendants, who carries its mark."""
    stats, leader = all_stats(), identity.pid
    found: set[int] = set()
    if not _is_another(identity):
        found = {stat.pid for stat in stats if leader in (stat.pid, stat.group, stat.session)}
    found |= {stat.pid for stat in stats if stat.pid not in found and marks_of(stat.pid) == identity.mark}
    grown = True
    while grown:
        more = {stat.pid for stat in stats if stat.parent in found} - found
        found |= more
        grown = bool(more)
    return found - ancestry()


def stop(identity: Identity, grace_s: float = STOP_GRACE_S, hurried: Callable[[], bool] = lambda: False) -> Stopped:
    """Stop a process and everything that belongs to it: TERM to the group, KILL after `grace_s`, then whatever is left.

    Blocks; meant for a thread. `hurried` ends the patience early. Survivors are processes that even KILL did not end in time.
    """
    began = time.monotonic()
    if _group(identity):
        _signal_group(identity.pid, signal.SIGTERM)
    while _group(identity) and time.monotonic() - began < grace_s and not hurried():
        time.sleep(LOOK_S)
    group = _group(identity)
    was_killed = bool(group) and _signal_group(identity.pid, signal.SIGKILL)
    left = family(identity) - group
    kill(left)
    deadline = time.monotonic() + GONE_S
    while (survivors := family(identity)) and time.monotonic() < deadline:
        kill(survivors)
        time.sleep(LOOK_S)
    return Stopped(time.monotonic() - began, was_killed, len(left), tuple(sorted(survivors)))


def kill(pids: Iterable[int]) -> None:
    """KILL to each; one that is gone already is fine."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def marked_with(marks: Iterable[str]) -> set[int]:
    """Living processes that carry one of the marks, our own ancestry left out."""
    wanted = set(marks)
    return {stat.pid for stat in all_stats() if marks_of(stat.pid) in wanted} - ancestry()


def left_of(mark: str, leaders: Iterable[Identity]) -> set[int]:
    """Living processes that carry a mark, or belong to leaders that are gone: an engine core outlives the server that was killed,
    holds the memory of its card, and has no mark any more."""
    return marked_with({mark}).union(*(family(leader) for leader in leaders))


def wait_gone(pids: Iterable[int]) -> None:
    """Wait until killed processes have given back all that they had, for `GONE_S` at most. Blocks; meant for a thread.

    A process that ends loses its environment, and with it its mark, before its files.
    """
    left, deadline = set(pids), time.monotonic() + GONE_S
    while left.intersection(stat.pid for stat in all_stats()) and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _is_another(identity: Identity) -> bool:
    """Whether the id now belongs to a process of somebody else. The kernel gives no id away while a group is called by it."""
    stat = stat_of(identity.pid)
    return stat is not None and stat.started != identity.started


def _group(identity: Identity) -> set[int]:
    return set() if _is_another(identity) else {stat.pid for stat in all_stats() if stat.group == identity.pid}


def _signal_group(leader: int, number: int) -> bool:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def reap_all() -> list[tuple[int, int]]:
    """Reap every child that has ended: ids and exit codes (negative: the signal)."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            found.append((pid, os.waitstatus_to_exitcode(status)))
    return found
