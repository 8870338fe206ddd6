"""The engine release that is asked: a given Python, an environment that was made before, or one that is made now."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from compiler.deploy.failures import DeployError

PARTS_ENV = "PODWRIGHT_REAL_PARTS_DIR"
CACHE_ENV = "PODWRIGHT_CACHE"
SCRIPT = Path("images/engine/judge/make_environment.sh")
# Finding the package imports nothing of it; a cold disk takes seconds.
LOOK_S = 60
NO_PYTHON, NO_COMPILER = 3, 4
WAYS = (
    "Name a Python that has it with --engine-python PATH, or an image with --engine-image NAME, or let podwright make an environment: it needs Python 3.12 "
    "(PODWRIGHT_PYTHON312 names one), a C compiler and binutils, 8 GB of disk and a network."
)


class NoEngine(DeployError):
    """No environment with the engine release."""


@dataclasses.dataclass(frozen=True, slots=True)
class Engine:
    """An interpreter that has the release, and the folder of a driver library that knows no device (None: none is needed)."""

    python: Path
    driver: Path | None
    made: bool

    def seen(self, path: Path, folder: Path) -> Path:
        """A path as the release sees it: it runs on this machine."""
        return path


def engines_folder(environ: Mapping[str, str]) -> Path:
    """Where environments are kept: PODWRIGHT_REAL_PARTS_DIR, else `real-parts` in the user's cache folder."""
    return Path(environ.get(PARTS_ENV) or Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podwright" / "real-parts")


def given_engine(python: Path, release: str, root: Path, environ: Mapping[str, str]) -> Engine:
    """The environment of that interpreter. Raises NoEngine where it has no such release."""
    look = "import importlib.metadata as m, importlib.util as u, os; print(m.version('vllm')); print(os.path.dirname(u.find_spec('vllm').origin))"
    try:
        done = subprocess.run([str(python), "-c", look], capture_output=True, text=True, timeout=LOOK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoEngine(f"{python} cannot be run: {error}", "The release is asked inside its own Python.", WAYS) from error
    found, _, package = done.stdout.strip().partition("\n")
    if done.returncode or found.partition("+")[0] != release:
        raise NoEngine(
            f"{python} has {'vllm ' + found if found else 'no vllm'}, and the profile asks for {release}",
            "Another release decides differently.",
            WAYS,
        )
    beside = python.parent.parent / "no-device"
    if (beside / "libcuda.so.1").exists():
        return Engine(python, beside, False)
    folder = engines_folder(environ) / f"driver-{release}"
    if not (folder / "libcuda.so.1").exists():
        _run(["bash", str(root / SCRIPT), "--driver", package, str(folder)], environ, lambda line: None)
    return Engine(python, folder, False)


def cached_engine(release: str, environ: Mapping[str, str]) -> Engine | None:
    """The environment of a release that was made before."""
    folder = engines_folder(environ) / f"vllm-{release}"
    return Engine(folder / "bin" / "python", folder / "no-device", False) if (folder / ".complete").exists() else None


def release_engine(
    release: str, lock: Path | None, root: Path, environ: Mapping[str, str], may_make: bool, say: Callable[[str], None]
) -> Engine:
    """The cached environment of a release, made now where there is none and that is allowed. Raises NoEngine."""
    if (kept := cached_engine(release, environ)) is not None:
        return kept
    folder = engines_folder(environ) / f"vllm-{release}"
    if not may_make:
        raise NoEngine(f"no vLLM {release} at hand", f"{folder} does not exist, and --no-install forbids to make it.", WAYS)
    say(f"making an environment with vLLM {release} in {folder}, once")
    _run(["bash", str(root / SCRIPT), release, str(folder), *([str(lock)] if lock else [])], environ, say)
    return Engine(folder / "bin" / "python", folder / "no-device", True)


def _run(command: list[str], environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run the script that makes things, its lines to `say` as they come. Raises NoEngine with its last words."""
    last = ""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, **environ}) as child:
        for line in child.stderr or ():
            last = line.strip() or last
            say(line.strip())
        code = child.wait()
    if code == NO_PYTHON:
        raise NoEngine("no vLLM at hand, and no Python 3.12 to make an environment with", last, WAYS)
    if code == NO_COMPILER:
        raise NoEngine("no vLLM at hand that can be asked", last, WAYS)
    if code:
        raise NoEngine(f"the environment could not be made (exit code {code})", last, WAYS)
