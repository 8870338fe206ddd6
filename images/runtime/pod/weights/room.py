"""Is there room on the disk for what is to come? A disk that fills up fails an hour in, with an error about something else."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from pod.weights.presence import in_gib

# Left free beside a download for compiled graphs, logs and the journal; compile caches of the source deployments took 1.2 GB.
RESERVE_BYTES = 2 << 30


@dataclasses.dataclass(frozen=True)
class Room:
    """Free space below `folder` for this user, in bytes, against what is needed. `problem` is None when it suffices."""

    folder: Path
    free_bytes: int
    need_bytes: int
    problem: str | None


def room(folder: Path, need_bytes: int, reserve_bytes: int = RESERVE_BYTES) -> Room:
    """Whether `need_bytes` more fit below `folder`, which need not exist yet, with `reserve_bytes` left over.

    Nothing is needed: that always fits. Raises nothing.
    """
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        found = os.statvfs(existing)
    except OSError as error:
        return Room(folder, 0, need_bytes, f"{existing} cannot be looked at: {error.strerror}")
    free = found.f_bavail * found.f_frsize
    if need_bytes <= 0 or free >= need_bytes + reserve_bytes:
        return Room(folder, free, need_bytes, None)
    problem = f"{in_gib(need_bytes)} are needed below {folder} and {in_gib(free)} are free, of which {in_gib(reserve_bytes)} must stay free"
    return Room(folder, free, need_bytes, problem)
