"""The engine as it is installed: its release, its Python files, what was done to them, and how to undo it. Standard library only.

What was done is noted beside the installed files and not in the state folder: a new container has the files as the image
brought them, whatever a volume remembers.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from importlib import metadata
from pathlib import Path

from pod.hub.files import write_atomically

_NOTE = "podwright-patches.json"


class Installed:
    """The distribution `distribution` below `site`, whose package is `package`. Raises LookupError when it is not installed."""

    def __init__(self, distribution: str, package: str = "vllm", site: Path | None = None) -> None:
        search = (
            metadata.distributions(name=distribution, path=[str(site)]) if site is not None else metadata.distributions(name=distribution)
        )
        found = next(iter(search), None)
        if found is None:
            raise LookupError(f"{distribution} is not installed")
        self.release = found.version
        self.site = Path(str(found.locate_file("")))
        self.package = package

    def is_release(self, releases: tuple[str, ...]) -> bool:
        """Whether the installed release is one of these; a build's own suffix such as `+cpu` does not count."""
        return self.release.partition("+")[0] in releases

    def sha256(self, path: str) -> str | None:
        """Hash of an installed file; None where there is none."""
        try:
            return hashlib.sha256((self.site / path).read_bytes()).hexdigest()
        except OSError:
            return None

    def hashes(self) -> dict[str, str]:
        """Hash of each Python file of the engine's package."""
        files = sorted((self.site / self.package).rglob("*.py"))
        return {file.relative_to(self.site).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()}

    def noted(self, script_sha256: str) -> dict[str, str] | None:
        """What a script has left the last time: hash by file, if that is still so; None otherwise."""
        note = self._notes().get(script_sha256)
        if not isinstance(note, dict) or note.get("release") != self.release or not isinstance(note.get("files"), dict):
            return None
        files: dict[str, str] = note["files"]
        return files if all(self.sha256(path) == digest for path, digest in files.items()) else None

    def note(self, script_sha256: str, files: dict[str, str]) -> None:
        """Remember what a script has left. Raises OSError."""
        notes = {**self._notes(), script_sha256: {"release": self.release, "files": files}}
        write_atomically(self.site / _NOTE, json.dumps(notes, indent=1, sort_keys=True).encode())

    def _notes(self) -> dict[str, object]:
        try:
            found = json.loads((self.site / _NOTE).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


class Backup:
    """The package's Python files as they were when the block began. `restore` brings them back."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self.before = installed.hashes()

    def __enter__(self) -> Backup:
        self._folder = Path(tempfile.mkdtemp(prefix="podwright-before-"))
        for path in self.before:
            copy = self._folder / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._installed.site / path, copy)
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def changed(self) -> dict[str, str]:
        """Files that are new or another, with their hashes now; the empty text for one that is gone."""
        now = self._installed.hashes()
        return {path: now.get(path, "") for path in sorted(now.keys() | self.before.keys()) if now.get(path) != self.before.get(path)}

    def restore(self) -> None:
        """Put back what was changed or removed, and remove what is new. Raises OSError."""
        for path in self.changed():
            file = self._installed.site / path
            if path in self.before:
                write_atomically(file, (self._folder / path).read_bytes())
            else:
                file.unlink(missing_ok=True)
