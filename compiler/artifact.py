"""Artifacts and bundles: text with a path, and the only place that writes them to disk."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath


@dataclasses.dataclass(frozen=True, slots=True)
class Artifact:
    """One file of a bundle: its path inside the bundle, its bytes, and its permission bits."""

    path: str
    content: bytes
    mode: int = 0o644

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts or "\\" in self.path or "\0" in self.path:
            raise ValueError(f"artifact path leaves its bundle: {self.path!r}")

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 of the content."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def text(self) -> str:
        """The content as UTF-8 text."""
        return self.content.decode("utf-8")


@dataclasses.dataclass(frozen=True, slots=True)
class Bundle:
    """All files of one profile for one target, sorted by path."""

    profile: str
    artifacts: tuple[Artifact, ...]

    @classmethod
    def of(cls, profile: str, artifacts: Iterable[Artifact]) -> Bundle:
        """A bundle with its artifacts in order. Raises ValueError when two have the same path."""
        ordered = tuple(sorted(artifacts, key=lambda a: a.path))
        paths = [a.path for a in ordered]
        if len(set(paths)) != len(paths):
            raise ValueError(f"two artifacts share a path in {profile}: {sorted({p for p in paths if paths.count(p) > 1})}")
        return cls(profile, ordered)

    def by_path(self) -> dict[str, Artifact]:
        """The artifacts by path."""
        return {a.path: a for a in self.artifacts}


def written(bundle: Bundle, folder: Path) -> bool:
    """Write `bundle` as `folder`, whole or not at all; True when anything on disk changed.

    The files go to a temporary folder beside it, which then takes the old one's place, so a full disk, a signal or a
    crash leaves the old bundle as it was. Raises OSError when the place cannot be written.
    """
    if not drift(bundle, folder):
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for artifact in bundle.artifacts:
            _write_file(artifact, staging)
        staging.chmod(0o755)
        _swap(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return True


def drift(bundle: Bundle, folder: Path) -> list[str]:
    """Paths whose content or mode on disk differs from the bundle, or that only one of the two has."""
    expected = {a.path: (a.content, a.mode) for a in bundle.artifacts}
    found: dict[str, tuple[bytes, int]] = {}
    if folder.is_dir():
        for file in folder.rglob("*"):
            if file.is_file():
                found[file.relative_to(folder).as_posix()] = (file.read_bytes(), file.stat().st_mode & 0o777)
    return sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))


def _write_file(artifact: Artifact, folder: Path) -> None:
    file = folder / artifact.path
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as stream:
        stream.write(artifact.content)
        stream.flush()
        os.fsync(stream.fileno())
    file.chmod(artifact.mode)


def _swap(staging: Path, folder: Path) -> None:
    """Put `staging` in `folder`'s place; a rename that fails puts the old folder back."""
    if not folder.exists():
        staging.rename(folder)
        return
    retired = folder.with_name(f".{folder.name}.old-{os.getpid()}")
    folder.rename(retired)
    try:
        staging.rename(folder)
    except OSError:
        retired.rename(folder)
        raise
    shutil.rmtree(retired, ignore_errors=True)
