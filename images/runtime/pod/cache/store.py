"""The compile cache's way from a Hub repository into the engine's folder, and back after a start that proved itself.

What is brought is used only if a pod with the same endpoint's key has published it (`pod.cache.seal`). The seal's name is part of the
file's, so that a changed key finds nothing and publishes beside what is there.

Both are done by a process of their own (`python -m pod.cache`), whose one result line is a `Stored`. Neither ever keeps an
engine from starting: whatever goes wrong is a result, and the start goes on without the cache. What a folder holds
already is noted in it, so that a second start on the same pod asks nobody.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from pod.cache.archive import MOST_BYTES, pack, unpack
from pod.cache.key import compile_key, key_parts
from pod.cache.manifest import ArchiveError
from pod.cache.seal import Seal
from pod.contract import CompileCache
from pod.hub import child
from pod.hub.files import write_atomically

Kind = Literal["hit", "miss", "kept", "published", "known", "empty", "refused", "failed"]
_NOTE = ".podwright-keys.json"


@dataclasses.dataclass(frozen=True)
class Stored:
    """How one restore or publication ended.

    restore: `hit`, `miss` (nobody has published it), `kept` (this pod has it already), `refused` (the archive is not used,
    `detail` says why), `failed` (the Hub or the disk). publish: `published`, `known` (somebody has), `empty`, `failed`.
    Bytes are of the archive; `cold_start_s` is how long the start took that compiled what is in it.
    """

    kind: Kind
    detail: str
    key: str
    archive_bytes: int = 0
    unpacked_bytes: int = 0
    seconds: float = 0.0
    cold_start_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Place:
    """Which cache, and where: a dataset on the Hub, a key with its parts, and the engine's folder (VLLM_CACHE_ROOT)."""

    repo: str
    key: str
    parts: dict[str, str]
    root: str

    @classmethod
    def of(cls, cache: CompileCache, facts: Mapping[str, str], vllm_cache_root: str) -> Place:
        """The place of an engine's cache on this pod. Each key has its own folder, so that an archive holds nothing of other
        settings or of another model of the swap set: the engine must be started with VLLM_CACHE_ROOT set to `root`."""
        key = compile_key(cache, facts)
        return cls(cache.repo, key, key_parts(cache, facts), str(Path(vllm_cache_root) / f"compile-{key}"))

    def name(self, seal: Seal) -> str:
        """The archive's file in the repository."""
        return f"compile-{self.key}-{seal.name}.tar.gz"


@dataclasses.dataclass(frozen=True)
class Job:
    """What `python -m pod.cache` reads."""

    place: Place
    seal: Seal


def restore(place: Place, seal: Seal, env: Mapping[str, str]) -> Stored:
    """Bring the cache of this key into its folder, if there is one that is right. Raises nothing but what a bug raises."""
    began, root, name = time.monotonic(), Path(place.root), place.name(seal)
    if place.key in _noted(root):
        return Stored("kept", "this pod holds it already", place.key)
    try:
        with _private_file(root, name) as archive:
            got = child.run(child.argv("get", repo=place.repo, type="dataset", path=name, target=archive, max_bytes=MOST_BYTES), env)
            if not got.is_ok:
                return _not_fetched(place, name, got)
            manifest = unpack(archive, root, seal, place.key, place.parts)
            size = archive.stat().st_size
        _note(root, place.key)
    except ArchiveError as error:
        kind: Kind = "failed" if error.reason == "no-room" else "refused"
        return Stored(kind, f"{place.repo}/{name} {error}", place.key)
    except OSError as error:
        return Stored("failed", f"{root}: {error.strerror}", place.key)
    detail = f"{len(manifest.files)} files; the start that compiled them took {manifest.cold_start_s:.0f} s"
    return Stored("hit", detail, place.key, size, manifest.total_bytes, _since(began), manifest.cold_start_s)


def publish(place: Place, seal: Seal, cold_start_s: float, env: Mapping[str, str]) -> Stored:
    """Publish what the engine has compiled, unless this key is there. `cold_start_s`: how long its start took."""
    began, root, name = time.monotonic(), Path(place.root), place.name(seal)
    if place.key in _noted(root):
        return Stored("known", "this pod has restored or published it", place.key)
    asked = child.run(child.argv("exists", repo=place.repo, type="dataset", path=name), env)
    if not asked.is_ok:
        return Stored("failed", asked.detail, place.key)
    try:
        if asked.facts.get("exists"):
            _note(root, place.key)
            return Stored("known", f"{place.repo} has {name}", place.key)
        with _private_file(root, name) as archive:
            packed = pack(root, archive, seal, place.key, place.parts, cold_start_s)
            message = f"Compile cache {place.key}: {place.parts.get('model', 'model')} on {place.parts.get('gpu', 'this machine')}"
            put = child.run(
                child.argv("upload", repo=place.repo, type="dataset", path=name, source=archive, message=message, create=True), env
            )
        if not put.is_ok:
            return Stored("failed", put.detail, place.key)
        _note(root, place.key)
    except ArchiveError as error:
        return Stored("empty" if error.reason == "empty" else "failed", str(error), place.key)
    except OSError as error:
        return Stored("failed", f"{root}: {error.strerror}", place.key)
    detail = f"{len(packed.manifest.files)} files; this start took {cold_start_s:.0f} s"
    return Stored("published", detail, place.key, packed.archive_bytes, packed.manifest.total_bytes, _since(began), cold_start_s)


def _not_fetched(place: Place, name: str, got: child.Outcome) -> Stored:
    if got.kind == "not-found":
        cause = "no pod with the endpoint's present key has published it, and a former key's is not used"
        return Stored("miss", f"{place.repo} has no {name}: {cause}; this start compiles, and publishes it", place.key)
    return Stored("refused" if got.kind == "too-big" else "failed", got.detail, place.key)


@contextlib.contextmanager
def _private_file(root: Path, name: str) -> Iterator[Path]:
    """A path on the disk of the cache for the archive, which is gone afterwards."""
    folder = root.parent / ".podwright-archives"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def _noted(root: Path) -> set[str]:
    """Keys whose compiled graphs are in the folder; none once the folder has been emptied."""
    try:
        found = json.loads((root / _NOTE).read_bytes())
        return {str(key) for key in found} if isinstance(found, list) else set()
    except (OSError, ValueError):
        return set()


def _note(root: Path, key: str) -> None:
    write_atomically(root / _NOTE, json.dumps(sorted(_noted(root) | {key})).encode())


def _since(began: float) -> float:
    return round(time.monotonic() - began, 2)
