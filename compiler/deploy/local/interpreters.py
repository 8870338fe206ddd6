"""Python interpreters of this machine: one of the version that an engine's lock was made for, or one that the engine runs on anyway."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from compiler.deploy.failures import LocalRunFailed

PYTHON_ENV = "PODWRIGHT_PYTHON"
# What the CPU build has wheels for.
OLDEST, NEWEST = (3, 10), (3, 13)
# Bounds one question to an interpreter; a version manager's shim that has none of that version may ask the network.
ASK_S = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class Interpreter:
    """One that was asked to run. `version` is its feature release, such as `3.12`."""

    path: str
    version: str


def found_interpreter(wanted: str, chosen: str | None, environ: Mapping[str, str]) -> Interpreter:
    """One of the `wanted` version if there is any, else the newest other one that will do. `chosen` is asked alone. Raises LocalRunFailed."""
    given = chosen or environ.get(PYTHON_ENV)
    if given:
        version = _version(given)
        if version is None or not _will_do(version):
            raise LocalRunFailed(
                f"{given} is {'no Python that runs' if version is None else f'Python {version}'}", f"The engine has builds for Python {_span()}.", f"Name a Python {wanted}."
            )  # fmt: skip
        return Interpreter(given, version)
    others = []
    for path in _candidates(wanted, environ):
        version = _version(path)
        if version == wanted:
            return Interpreter(path, version)
        if version is not None and _will_do(version):
            others.append(Interpreter(path, version))
    if others:
        return max(others, key=lambda found: _numbers(found.version))
    raise LocalRunFailed(f"no Python {_span()} on this machine", "The engine has no builds for others.", f"Install Python {wanted}, or name one with --python.")


def _candidates(wanted: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Those that may have the wanted version first."""
    home = Path(environ.get("HOME") or "/")
    names = [wanted, *(f"{OLDEST[0]}.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1))]
    for name in dict.fromkeys(names):
        if path := shutil.which(f"python{name}", path=environ.get("PATH")):
            yield path
        for folder, pattern in ((Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", f"{name}.*"), (home / ".local/share/uv/python", f"cpython-{name}.*")):
            yield from (str(f) for f in sorted(folder.glob(f"{pattern}/bin/python{name}")))
        yield from (str(f) for f in (Path(f"/usr/local/bin/python{name}"), Path(f"/opt/python{name}/bin/python{name}")) if f.exists())
    yield sys.executable


def _version(path: str) -> str | None:
    """The version of an interpreter, or None where it does not run."""
    try:
        run = subprocess.run([path, "-I", "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def _will_do(version: str) -> bool:
    return OLDEST <= _numbers(version) <= NEWEST


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


def _span() -> str:
    return f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"


def index_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """uv's variables for what pip is told about indexes and certificates on this machine; what is set for uv already wins."""
    found: dict[str, str] = {}
    run = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=ASK_S, check=False)
    lines = [line for line in run.stdout.splitlines() if "=" in line]
    for line in sorted(lines, key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        name = _UV_NAMES.get(key.rpartition(".")[2])
        if name:
            found[name] = " ".join(value.strip("'\"").replace("\\n", " ").split())
    if "UV_INDEX" in found:  # pip takes all indexes for equal, and whoever set them up counts on it
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in found.items() if name not in environ}


_UV_NAMES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS", "cert": "SSL_CERT_FILE"}


def uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that uv is run in: this machine's, with pip's settings and the system's certificates."""
    base = {name: value for name, value in environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "UV_PYTHON")}
    return {**base, **index_settings(environ), "UV_SYSTEM_CERTS": "1", "UV_HTTP_TIMEOUT": "600", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}


def own_uv(version: str) -> str | None:
    """The uv on PATH where it has exactly that version."""
    path = shutil.which("uv")
    if path is None:
        return None
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return path if run.stdout.split()[1:2] == [version] else None


def is_linux_x86() -> bool:
    """Whether the locks fit this machine, and the runtime's ways with processes work on it."""
    return sys.platform == "linux" and os.uname().machine in ("x86_64", "AMD64")
