"""Artifacts and bundles: text with a path, and the only place that writes them to disk."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

LOCK_NAME = "bundle.lock"
"""The file that makes a folder a bundle."""


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
    killed program leaves the old bundle as it was. Raises OSError when the place cannot be written, or holds something
    that is not a bundle: a folder without bundle.lock is somebody's work, and is never replaced. Files that the old
    bundle.lock does not name are the owner's (secrets.env, notes): they are taken over.
    """
    if not drift(bundle, folder):
        return False
    folder = folder.resolve()  # A link keeps pointing where it does.
    _refuse_foreign(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for artifact in bundle.artifacts:
            _write_file(artifact, staging)
        for path in owners_files(folder) - bundle.by_path().keys():
            (staging / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / path, staging / path)
        staging.chmod(0o755)
        _swap(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return True


def write_text(file: Path, text: str) -> None:
    """Write one file, whole or not at all, and the folders above it. Raises OSError when it cannot be written."""
    file.parent.mkdir(parents=True, exist_ok=True)
    staging = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        staging.write_text(text, encoding="utf-8")
        staging.replace(file)
    finally:
        staging.unlink(missing_ok=True)


def drift(bundle: Bundle, folder: Path) -> list[str]:
    """Paths whose content or mode on disk differs from the bundle, or that only one of the two has; the owner's files do not count."""
    owners = owners_files(folder)
    expected = {a.path: (a.content, a.mode) for a in bundle.artifacts}
    found: dict[str, tuple[bytes, int]] = {}
    if folder.is_dir():
        for file in folder.rglob("*"):
            if file.is_file():
                found[file.relative_to(folder).as_posix()] = (file.read_bytes(), file.stat().st_mode & 0o777)
    return sorted(path for path in expected.keys() | (found.keys() - owners) if expected.get(path) != found.get(path))


def owners_files(folder: Path) -> set[str]:
    """Files in a bundle's folder that podwright did not write, by the bundle.lock that lies there; none where there is no such lock."""
    try:
        written_before = set(json.loads((folder / LOCK_NAME).read_text("utf-8"))["outputs"]) | {LOCK_NAME}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    return {f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file() and f.relative_to(folder).as_posix() not in written_before}


def _write_file(artifact: Artifact, folder: Path) -> None:
    file = folder / artifact.path
    for parent in reversed(file.relative_to(folder).parents[:-1]):
        if not (folder / parent).is_dir():
            (folder / parent).mkdir()
            (folder / parent).chmod(0o755)  # The same for every umask: the folders go into images.
    file.write_bytes(artifact.content)
    file.chmod(artifact.mode)


def _refuse_foreign(folder: Path) -> None:
    """Raise OSError when replacing `folder` would delete what is not a bundle."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "there is a file where the bundle's folder belongs:", str(folder))
    if folder.is_dir() and any(folder.iterdir()) and not (folder / LOCK_NAME).is_file():
        raise FileExistsError(errno.EEXIST, f"this folder is not a bundle (it has no {LOCK_NAME}), so it is not replaced:", str(folder))


def _swap(staging: Path, folder: Path) -> None:
    """Put `staging` in `folder`'s place; whatever goes wrong, the old folder is back."""
    if not folder.exists():
        staging.rename(folder)
        return
    retired = folder.with_name(f".{folder.name}.old-{os.getpid()}")
    try:
        folder.rename(retired)
        staging.rename(folder)
    finally:  # Also when a signal comes between the two.
        if folder.exists():
            shutil.rmtree(retired, ignore_errors=True)
        else:
            retired.rename(folder)
