"""The runtime's folder: what survives a restart of the runtime, each file replaced whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATE_ENV = "PODWRIGHT_STATE_DIR"
# Told by the guardian to the supervisor: the folder that it found is not the one that was wanted.
PROBLEM_ENV = "PODWRIGHT_STATE_PROBLEM"
DEFAULT = Path("/var/lib/podwright")
STATUS_PORT_ENV = "PODWRIGHT_STATUS_PORT"
DEFAULT_STATUS_PORT = 8079
# Given up on a disk that is full, so that what must not be forgotten still fits: some manifests and the small files of state.
RESERVE_NAME, RESERVE_BYTES = "reserve", 1 << 20


@dataclasses.dataclass(frozen=True)
class StateFolder:
    """Where everything is kept. `problem` says why another folder than the wanted one is used; empty when it is not."""

    path: Path
    problem: str = ""

    @property
    def logs(self) -> Path:
        """Output of engine, bridge and the other children."""
        return self.path / "logs"

    @property
    def reserve(self) -> Path:
        """A file of no use but that its room can be had."""
        return self.path / RESERVE_NAME

    @property
    def engine_file(self) -> Path:
        """What the bridge reads about the engine."""
        return self.path / "engine.json"

    @property
    def manifest_file(self) -> Path:
        """The manifest as it is worked by here, levers included: what the bridge reads its settings from."""
        return self.path / "manifest.json"

    @property
    def children_file(self) -> Path:
        """Processes that the next supervisor adopts."""
        return self.path / "children.json"

    @property
    def memory_file(self) -> Path:
        """What the supervisor must not forget: what is in force, what was good, what failed."""
        return self.path / "memory.json"

    @property
    def runtime_file(self) -> Path:
        """Which runtime the guardian starts, where it is not the image's."""
        return self.path / "runtime.json"

    @property
    def refused_runtimes_file(self) -> Path:
        """Runtimes that ended again and again right after their start."""
        return self.path / "runtimes-refused.json"

    def manifest(self, sha: str) -> Path:
        """A manifest as it was written, by its hash."""
        return self.path / "manifests" / f"{sha}.json"

    def runtime(self, sha: str) -> Path:
        """The folder of an unpacked runtime."""
        return self.path / "runtimes" / sha


def state_folder(environ: Mapping[str, str]) -> StateFolder:
    """The folder to work in; a fresh temporary one where the wanted one cannot be written."""
    wanted = Path(environ.get(STATE_ENV) or DEFAULT)
    try:
        for part in ("logs", "manifests"):
            (wanted / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        write(wanted / "writable", b"")
        (wanted / "writable").unlink(missing_ok=True)
    except OSError as error:
        import tempfile  # the guardian, which lives for ever, must stay small

        path = Path(tempfile.mkdtemp(prefix="podwright-"))
        for part in ("logs", "manifests"):
            (path / part).mkdir()
        return StateFolder(path, f"{wanted} cannot be written ({error.strerror}); {path} is used, and a new container forgets it")
    return StateFolder(wanted, environ.get(PROBLEM_ENV, ""))


def tidy(folder: StateFolder) -> None:
    """Remove what a process that was killed in the middle of a write has left; only one supervisor writes here."""
    import shutil  # the guardian, which lives for ever, must stay small

    for place in (folder.path, folder.path / "manifests", folder.path / "runtimes"):
        for path in place.glob(".*.*"):
            if path.is_file():
                path.unlink(missing_ok=True)
        for path in place.glob(".unpacking-*"):
            shutil.rmtree(path, ignore_errors=True)


def keep_reserve(folder: StateFolder) -> None:
    """Have some room in reserve, if the disk has it. Incompressible, because some disks compress."""
    if folder.reserve.exists():
        return
    beside = folder.path / f".{RESERVE_NAME}.new"
    try:
        beside.write_bytes(os.urandom(RESERVE_BYTES))
        beside.replace(folder.reserve)
    except OSError:
        beside.unlink(missing_ok=True)


def write(path: Path, content: bytes) -> None:
    """Put a file of the state folder in place whole: written beside and renamed. Raises OSError, and then the old one is still there."""
    try:
        _replace(path, content)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        if _gave_up_reserve(path):
            with contextlib.suppress(OSError):
                _replace(path, content)
                return
        _overwrite(path, content)


def _gave_up_reserve(path: Path) -> bool:
    for folder in (path.parent, path.parent.parent):
        with contextlib.suppress(OSError):
            (folder / RESERVE_NAME).unlink()
            return True
    return False


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _overwrite(path: Path, content: bytes) -> None:
    """On a full disk, use the blocks that a file of JSON already has, so that what it says stays true."""
    with path.open("r+b", buffering=0) as stream:
        found = os.fstat(stream.fileno())
        if len(content) > max(found.st_size, found.st_blocks * 512):
            raise OSError(errno.ENOSPC, "no room for a longer file on a full disk", str(path))
        stream.write(content.ljust(found.st_size))


def write_json(path: Path, data: Any) -> None:
    """The same for a JSON document."""
    write(path, json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode())


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; empty where there is none or it is damaged: what was lost is found out again."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def nonce(folder: StateFolder) -> str:
    """A word that marks processes of this folder's runtime, and nobody else's."""
    path = folder.path / "nonce"
    found = read_json(path).get("nonce")
    if isinstance(found, str) and found:
        return found
    made = os.urandom(8).hex()
    write_json(path, {"nonce": made})
    return made


def status_port(environ: Mapping[str, str]) -> int:
    """The loopback port of status and wishes. Raises ValueError for a variable that names none."""
    text = environ.get(STATUS_PORT_ENV) or str(DEFAULT_STATUS_PORT)
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ValueError(f"{STATUS_PORT_ENV} is no port")
    return int(text)
