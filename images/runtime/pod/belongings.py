"""Files outside of every folder of ours that an engine makes and does not remove when it is killed: shared memory, sockets.

vLLM's message queues are segments in /dev/shm, up to some hundred MiB each, and a container has little of that; its processes talk over
sockets in the temporary folder. Both outlive a killed engine, and sockets also one that was told to end. So they are noted while it
lives, by what its processes map and listen on, and removed once nobody uses them any more. Never by a pattern of their names.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_SHARED = "/dev/shm/"


def belongings(pids: Iterable[int]) -> set[str]:
    """Paths of the segments of shared memory that processes map, and of the sockets that they have bound. What is gone is left out."""
    listed = list(pids)
    sockets = {inode: path for inode, path in _bound().items() if path.startswith("/")}
    mine = {path for pid in listed for inode in _open_sockets(pid) if (path := sockets.get(inode))}
    return mine | {path for pid in listed for path in _mapped(pid)}


def remove(paths: Iterable[str]) -> list[str]:
    """Remove what no living process maps or has bound, and give what was removed. Anything that is not such a file is left alone."""
    wanted = [path for path in paths if _is_ours_to_judge(path)]
    if not wanted:
        return []
    used = set(_bound().values())
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            used |= _mapped(int(entry.name))
    removed = []
    for path in wanted:
        if path not in used:
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - a path as the kernel writes it
                removed.append(path)
    return removed


def _is_ours_to_judge(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISSOCK(mode) or (stat.S_ISREG(mode) and path.startswith(_SHARED))


def _mapped(pid: int) -> set[str]:
    try:
        lines = (_PROC / str(pid) / "maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return set()
    return {line[at:] for line in lines if (at := line.find(_SHARED)) > 0 and not line.endswith(" (deleted)")}


def _open_sockets(pid: int) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(_PROC / str(pid) / "fd"):  # noqa: PTH208 - thousands of names, no paths wanted
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _bound() -> dict[str, str]:
    """Paths of bound sockets by inode, of this network namespace."""
    try:
        rows = (_PROC / "net" / "unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return {}
    return {fields[6]: fields[7] for row in rows if len(fields := row.split(maxsplit=7)) == 8}
