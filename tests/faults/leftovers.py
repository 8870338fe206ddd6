"""What a fault left behind of a pod that lives on: processes that belong to nothing, zombies, temporary files."""

from __future__ import annotations

import contextlib
from pathlib import Path

from pod import processes
from pod.belongings import belongings

from tests.unit.pod.living import Pod

# Names that a file has only while it is being made, or that say whose half it is.
_TEMPORARY = (".unpacking-*", "*.incomplete", ".podwright-archives", ".*.tmp*")


def left_behind(pod: Pod) -> list[str]:
    """Empty where everything that is there belongs to what is running."""
    status = pod.status()
    if not status:
        return ["nobody answers for the status"]
    return sorted([*_strays(pod, status.get("engine_pid"), status.get("bridge_pid")), *_zombies(pod), *temporary_files(pod.folder)])


def _strays(pod: Pod, engine: int | None, bridge: int | None) -> list[str]:
    allowed = processes.ancestry(pod.supervisor())
    for leader in (engine, bridge):
        allowed |= _tree(leader) if leader else set()
    found = processes.marked_with({f"{role}:{pod.nonce}" for role in ("supervisor", "engine", "bridge", "worker")})
    # Orphans become children of the guardian, also those that have written a title over their mark.
    found |= {stat.pid for stat in processes.all_stats() if pod.process is not None and stat.parent == pod.process.pid}
    found -= allowed
    return [f"process {pid} ({_name(pid)})" for pid in sorted(found) if processes.stat_of(pid)]


def _tree(leader: int) -> set[int]:
    stats = processes.all_stats()
    found = {stat.pid for stat in stats if leader in (stat.pid, stat.group, stat.session)}
    while more := {stat.pid for stat in stats if stat.parent in found} - found:
        found |= more
    return found


def _zombies(pod: Pod) -> list[str]:
    assert pod.process is not None
    keepers = {pod.process.pid, pod.supervisor()}
    stats = [processes.stat_of(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [f"zombie {stat.pid}" for stat in stats if stat is not None and stat.state == "Z" and stat.parent in keepers]


def temporary_files(folder: Path) -> list[str]:
    """Files below a pod's folder that only a process in the middle of its work may have."""
    found = {path for pattern in _TEMPORARY for path in folder.rglob(pattern)}
    for place in (folder / "state", folder / "state" / "manifests"):
        found |= {path for path in place.glob(".*.*") if path.is_file()}
    return [f"file {path.relative_to(folder)}" for path in sorted(found) if path.exists()]


def files_of_engine(pod: Pod) -> set[str]:
    """Shared memory and sockets of the engine that runs now."""
    engine = pod.status().get("engine_pid")
    return belongings(_tree(engine)) if engine else set()


def still_there(files: set[str], pod: Pod) -> list[str]:
    """Those of a former engine that are still there although it is not."""
    return [f"file {path}" for path in sorted(files - files_of_engine(pod)) if Path(path).exists()]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:80].strip()
    return "gone"
