"""The first file of a cache archive: which key it is for, and every other file with its size and sha256.

It is read before anything is unpacked, so that each following byte is either promised here or refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from pod.strict_json import ShapeError, decoded, encoded, parsed

FORMAT = 1
NAME = "podwright-cache.json"
# vLLM's caches hold some hundred to some thousand files; inductor's names make about 150 bytes of manifest each.
MOST_FILES = 200_000
LARGEST_MANIFEST = 64 << 20
_LONGEST_PATH, _LONGEST_NAME = 4000, 255

Reason = Literal["unsealed", "damaged", "foreign", "unsafe", "too-big", "no-room", "changed", "empty"]


class ArchiveError(Exception):
    """An archive that is not used, or a folder that is not packed. `reason` is one of `Reason`."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason: Reason = reason


@dataclasses.dataclass(frozen=True)
class File:
    """A file of the cache: its path below the cache's root, with slashes."""

    path: str
    size: int
    sha256: str
    is_program: bool


@dataclasses.dataclass(frozen=True)
class CacheManifest:
    """What an archive holds. `cold_start_s` is how long the start took that compiled this; `sha256` is of all the rest."""

    format: int
    key: str
    parts: dict[str, str]
    cold_start_s: float
    files: tuple[File, ...]
    sha256: str

    @property
    def total_bytes(self) -> int:
        """Bytes of all files, unpacked."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        """JSON, the same for the same content."""
        return json.dumps(encoded(self), sort_keys=True, separators=(",", ":")).encode()


def sealed(key: str, parts: Mapping[str, str], cold_start_s: float, files: tuple[File, ...]) -> CacheManifest:
    """A manifest with its own hash."""
    manifest = CacheManifest(FORMAT, key, dict(parts), float(cold_start_s), files, "")
    return dataclasses.replace(manifest, sha256=_hash(manifest))


def read_manifest(content: bytes, key: str, parts: Mapping[str, str], max_bytes: int) -> CacheManifest:
    """The manifest in these bytes, if it is whole and for this key, and lists nothing that must not be unpacked.

    Raises ArchiveError. `parts` are this pod's, to say in words how a foreign archive differs.
    """
    try:
        data: Any = parsed(content)
        version = data.get("format") if isinstance(data, dict) else None
        if version != FORMAT:
            raise ArchiveError("foreign", f"is of format {version!r}; this runtime reads {FORMAT}")
        manifest = decoded(CacheManifest, data)
    except ShapeError as error:
        raise ArchiveError("damaged", f"has a manifest that cannot be read: {error}") from None
    if manifest.sha256 != _hash(manifest):
        raise ArchiveError("damaged", "has a manifest whose sha256 does not match")
    if manifest.key != key:
        raise ArchiveError("foreign", f"is for key {manifest.key} and not {key}: {_difference(manifest.parts, parts)}")
    _check_files(manifest, max_bytes)
    return manifest


def _check_files(manifest: CacheManifest, max_bytes: int) -> None:
    if len(manifest.files) > MOST_FILES:
        raise ArchiveError("too-big", f"lists {len(manifest.files):,} files; at most {MOST_FILES:,} are unpacked")
    folders: set[str] = set()
    names: set[str] = set()
    for file in manifest.files:
        problem = path_problem(file.path)
        if problem or file.size < 0:
            raise ArchiveError("unsafe", f"lists a file that must not be written: {file.path[:80]!r} {problem or 'has a negative size'}")
        if file.path in names:
            raise ArchiveError("unsafe", f"lists {file.path[:80]!r} twice")
        names.add(file.path)
        parts = file.path.split("/")
        folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    for name in sorted(names & folders):
        raise ArchiveError("unsafe", f"lists {name[:80]!r} as a file and as a folder")
    if manifest.total_bytes > max_bytes:
        raise ArchiveError("too-big", f"unpacks to {manifest.total_bytes:,} bytes; at most {max_bytes:,} are taken")


def path_problem(path: str) -> str | None:
    """Why a path may not be written below a cache's root; None when it may."""
    parts = path.split("/")
    if not path or path.startswith("/") or "" in parts:
        return "is absolute, empty or has an empty part"
    if "." in parts or ".." in parts:
        return "climbs out of its folder"
    if any(ord(char) < 32 or ord(char) == 127 or char == "\\" for char in path):
        return "has a control character or a backslash"
    if parts[0].startswith(".podwright") or len(path.encode()) > _LONGEST_PATH or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return "has a name that is reserved or too long"
    return None


def _hash(manifest: CacheManifest) -> str:
    return hashlib.sha256(dataclasses.replace(manifest, sha256="").to_bytes()).hexdigest()


def _difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    differing = [f"{name} is {theirs.get(name, 'absent')[:60]!r} there and {ours.get(name, 'absent')[:60]!r} here"
                 for name in sorted(theirs.keys() | ours.keys()) if theirs.get(name) != ours.get(name)]  # fmt: skip
    return "; ".join(differing[:3]) or "the parts are the same, so the key was made by another rule"
