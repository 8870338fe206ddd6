"""Where the real parts are, and what the built bundles say: the help of the tests that run against real programs.

A part that is absent is named with the command that makes it, and its tests skip with that as their reason: never in silence.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PARTS = Path(os.environ.get("PODWRIGHT_REAL_PARTS_DIR") or Path.home() / ".cache" / "podwright" / "real-parts")
BUILD = Path(os.environ.get("PODWRIGHT_BUILD_DIR") or ROOT / "build")
ENGINE_TOOLS = ROOT / "tests" / "integration" / "engine"
# Building the parser takes 12 s on an idle core and a minute on a busy one; the tests of a whole build must not hang on it.
PARSER_SECONDS = 300


@dataclasses.dataclass(frozen=True)
class EngineParts:
    """A release's environment: its interpreter and the folder of the driver library that knows no device."""

    release: str
    folder: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"

    def env(self, **more: str) -> dict[str, str]:
        """The environment variables that the engine needs here: no reports, no Hub, quiet."""
        quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "PYTHONDONTWRITEBYTECODE": "1"}
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
        return {**kept, **quiet, "LD_LIBRARY_PATH": str(self.folder / "no-device"), **more}


def engine_parts(release: str) -> EngineParts | None:
    """The environment of a release, or None where it was not made."""
    folder = PARTS / f"vllm-{release}"
    return EngineParts(release, folder) if (folder / ".complete").exists() else None


def engine_absent(release: str) -> str:
    """Why the tests of a release are skipped."""
    return f"SKIPPED: no real vLLM {release} in {PARTS}; make it with .ci/real_vllm.sh {release}"


def linter(name: str) -> Path | None:
    """The program of a linter, from the real parts or from PATH."""
    made = sorted(PARTS.glob(f"linters-*/bin/{name}"))
    found = shutil.which(name)
    return made[-1] if made else Path(found) if found else None


def docker_host() -> str | None:
    """The address of a Docker engine that answers: the one in the environment, or the one that .ci/real_docker.sh starts."""
    for host in (os.environ.get("DOCKER_HOST"), "unix:///run/podwright-docker/docker.sock"):
        if host and shutil.which("docker"):
            asked = subprocess.run(["docker", "--host", host, "version"], capture_output=True, timeout=30, check=False)
            if asked.returncode == 0:
                return host
    return None


@dataclasses.dataclass(frozen=True)
class Built:
    """One built profile: its folder and its plan as JSON."""

    name: str
    folder: Path
    plan: dict[str, Any]

    @property
    def flags(self) -> list[str]:
        """What comes after `vllm serve`, the model first."""
        argv = self.plan["engine"]["argv"]
        return list(argv[2:]) if argv[:2] == ["vllm", "serve"] else list(argv)

    @property
    def release(self) -> str:
        """The engine's release."""
        return str(self.plan["engine"]["release"])


def built_bundles(build: Path = BUILD) -> list[Built]:
    """The bundles that lie in the build folder, by name; none before `make build-all`."""
    plans = sorted(build.glob("*/plan.json"))
    return [Built(path.parent.name, path.parent, json.loads(path.read_text())) for path in plans]


def json_lines(command: Iterable[object], jobs: list[dict[str, Any]], env: dict[str, str], seconds: int) -> dict[str, dict[str, Any]]:
    """The answers, by id, of a program that takes jobs on standard input and gives a JSON line for each."""
    done = subprocess.run(
        [str(word) for word in command], input=json.dumps(jobs), env=env, capture_output=True, text=True, timeout=seconds, check=False
    )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(jobs), f"{len(answers)} answers to {len(jobs)} jobs, exit {done.returncode}: {done.stderr[-2000:]}"
    return {answer["id"]: answer for answer in answers}


def parser_answers(parts: EngineParts, command_lines: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """What a release's real parser says to command lines (what comes after `vllm serve`), by name."""
    jobs = [{"id": name, "argv": argv} for name, argv in command_lines.items()]
    return json_lines([parts.python, ENGINE_TOOLS / "ask_engine.py"], jobs, parts.env(), PARSER_SECONDS)
