"""Following: the Hub is asked whether something was published, and what can be trusted becomes an event."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pod.contract import Follow
from pod.folders import StateFolder
from pod.hub.client import HubError
from pod.hub.follow import fetch_files
from pod.hub.poll import Poller, Quiet, Received, Refused, Trouble
from pod.levers import LeverError
from pod.publication import Taken
from pod.supervisor.events import Published
from pod.supervisor.events import Refused as RefusedEvent
from pod.supervisor.memory import keep_manifest, target_of
from pod.supervisor.workers import Workers

# Bounds the look whether a new runtime can be imported, on a host whose cores are busy.
IMPORT_S = 60.0
# A runtime has 60 files of some kilobytes; what is far larger is something else.
MAX_RUNTIME_BYTES = 64 << 20
_INSIDE = "runtime/"


class Following:
    """Asks, and posts. `taken` is the last publication that was dealt with before; `offered` the one handed out since."""

    def __init__(self, folder: StateFolder, environ: Mapping[str, str], workers: Workers, taken: Taken, post: Callable[[Any], None],
                 note: Callable[..., None]) -> None:  # fmt: skip
        self._folder, self._environ, self._workers, self._post, self._note = folder, environ, workers, post, note
        self._follow: Follow | None = None
        self._poller: Poller | None = None
        self._received: Received | None = None
        self._wake = asyncio.Event()
        self.taken = taken
        self.offered = taken
        self.last = "not asked yet"

    def ask_now(self) -> None:
        """Ask at once."""
        if self._poller is not None:
            self._poller.ask_now()
        self._wake.set()

    def configure(self, follow: Follow | None) -> None:
        """Follow what the manifest in force says from now on."""
        if follow != self._follow:
            self._follow = follow
            self._poller = Poller(follow, self._environ, self.taken if self.taken.sequence else None) if follow else None
            self._wake.set()

    async def run(self) -> None:
        """Ask for ever."""
        loop = asyncio.get_running_loop()
        while True:
            pause = max(0.0, self._poller.next_at - loop.time()) if self._poller else None
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)
            poller = self._poller
            if poller is not None and loop.time() >= poller.next_at:
                self._found(poller, await asyncio.to_thread(poller.poll, loop.time()))

    def _found(self, poller: Poller, found: Quiet | Trouble | Refused | Received) -> None:
        if isinstance(found, Quiet):
            self.last = "nothing new"
        elif isinstance(found, Trouble):
            self.last = f"{found.code}: {found.reason}"
            if found.is_news:
                self._note("follow", f"the Hub cannot be followed at the moment, the service goes on: {found.reason}", code=found.code)
        elif isinstance(found, Refused):
            self.last = f"refused: {found.reason}"
            self._post(RefusedEvent(found.code, found.reason))
        elif poller is self._poller:
            self._hand_out(poller, found)

    def _hand_out(self, poller: Poller, found: Received) -> None:
        publication = found.publication
        self.last = f"received publication {publication.sequence}"
        self.offered, self._received = poller.took(publication), found
        target = None
        if found.manifest is not None:
            try:
                target = target_of(found.manifest, self._environ, sequence=publication.sequence)
            except LeverError as error:
                self._post(RefusedEvent("lever", str(error)))
                return
            with contextlib.suppress(OSError):
                keep_manifest(self._folder, found.manifest)
        self._post(Published(target, publication.sequence, publication.when, publication.runtime))

    async def fetch_runtime(self, sha256: str) -> str:
        """Unpack the runtime that was published last beside ours, and try it; what is wrong with it, or nothing."""
        found = self._received
        path = found.publication.runtime_path if found else None
        if found is None or path is None or found.publication.runtime != sha256:
            return "it is not in the publication that was received last"
        folder = self._folder.runtime(sha256)
        try:
            if not folder.is_dir():
                content = (await asyncio.to_thread(fetch_files, found.base, found.publication, [path], self._environ.get("HF_TOKEN")))[path]
                await asyncio.to_thread(unpack_runtime, content, folder)
        except (HubError, OSError, tarfile.TarError, ValueError) as error:
            return str(error)
        return await self._tried(folder)

    async def _tried(self, folder: Path) -> str:
        environ = {**os.environ, "PYTHONPATH": str(folder)}
        try:
            ended = await self._workers.run([sys.executable, "-c", "import pod.supervisor.supervise, pod.bridge.app"], environ, limit_s=IMPORT_S)
        except (TimeoutError, OSError) as error:
            return f"it cannot be tried: {error}"
        return "" if ended.code == 0 else f"it cannot be imported here: {(ended.errors.strip().splitlines() or ['no message'])[-1]}"


def unpack_runtime(content: bytes, folder: Path) -> None:
    """The runtime in a payload, put in place whole. Raises ValueError for a payload without one, or with what is no plain file."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unpacking-"))
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:bz2") as archive:
            members = [member for member in archive if member.name.startswith(_INSIDE)]
            if not members or sum(member.size for member in members) > MAX_RUNTIME_BYTES:
                raise ValueError("the payload holds no runtime, or one that is far too large")
            for member in members:
                _put(archive, member, beside)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    target = (folder / member.name.removeprefix(_INSIDE)).resolve()
    if not member.isfile() or not target.is_relative_to(folder.resolve()):
        raise ValueError(f"the payload holds {member.name[:100]!r}, which is no plain file below its folder")
    stream = archive.extractfile(member)
    assert stream is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(stream.read())
