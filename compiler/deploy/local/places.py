"""Where a local run keeps its things: all of them below the folder of bundles and one cache, never in the user's home itself."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

CACHE_ENV = "PODWRIGHT_CACHE_DIR"


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """The folders of one profile's local run. `cache` is shared by all profiles and survives `make clean`."""

    profile: str
    bundle: Path
    home: Path
    cache: Path

    @classmethod
    def of(cls, profile: str, out: Path, environ: Mapping[str, str]) -> Places:
        """The places of a profile whose bundles are written below `out`."""
        base = environ.get(CACHE_ENV) or Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podwright"
        return cls(profile, (out / profile).resolve(), (out / "local" / profile).resolve(), Path(base).resolve())

    @property
    def root(self) -> Path:
        """What is `/` to the bootstrap and the runtime."""
        return self.home / "root"

    @property
    def state(self) -> Path:
        """The runtime's state and logs."""
        return self.home / "state"

    @property
    def log(self) -> Path:
        """What a container's log would hold."""
        return self.home / "pod.log"

    @property
    def lock(self) -> Path:
        """Held by whoever runs this profile here; a running one writes its process id and address into it."""
        return self.home / "running"

    def key(self, name: str, environ: Mapping[str, str]) -> str:
        """The endpoint's key: the variable `name`, else one that was made once for this folder. Raises OSError."""
        if environ.get(name, "").strip():
            return environ[name].strip()
        file = self.home / "key"
        if not file.is_file() or not file.read_text("utf-8").strip():
            self.home.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(f"{secrets.token_urlsafe(24)}\n")
        return file.read_text("utf-8").strip()
