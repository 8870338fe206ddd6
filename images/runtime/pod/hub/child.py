"""The other side of `python -m pod.hub`: its command line, its environment, its lines. Loads nothing heavy."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Bounds a single request of the child: connecting, and the time between two pieces of a file.
_REQUEST_S = "30"
_FORGOTTEN = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a download is."""

    done_bytes: int
    total_bytes: int
    mib_s: float

    def __str__(self) -> str:
        return f"{self.done_bytes / (1 << 30):.1f} of {self.total_bytes / (1 << 30):.1f} GiB, {self.mib_s:.0f} MiB/s"


@dataclasses.dataclass(frozen=True)
class Retry:
    """A failure that the child waits out by itself."""

    detail: str
    pause_s: float


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The end of a transfer. `kind` is `ok` or what failed; `may_pass`: the same may work later; `facts`: all that was said."""

    kind: str
    detail: str
    fix: str
    may_pass: bool
    facts: Mapping[str, Any]

    @property
    def is_ok(self) -> bool:
        """Whether all was done."""
        return self.kind == "ok"


Line = Progress | Retry | Outcome


def argv(command: str, python: str = sys.executable, **options: str | int | Path | bool | None) -> list[str]:
    """The command line of one transfer; an option of None is left out, `max_bytes=5` becomes `--max-bytes 5`."""
    words: list[str] = []
    for name, value in options.items():
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
        elif value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}={value}")
    return [python, "-m", "pod.hub", command, *words]


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """`env` for the child: an engine's offline switch does not reach it, and the library neither draws nor reports."""
    kept = {name: value for name, value in env.items() if name not in _FORGOTTEN}
    fixed = {
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "PYTHONUNBUFFERED": "1",
    }
    asked = {"HF_HUB_DOWNLOAD_TIMEOUT": _REQUEST_S, "HF_HUB_ETAG_TIMEOUT": _REQUEST_S, "HF_XET_HIGH_PERFORMANCE": "1"}
    return {**asked, **kept, **fixed}


def parsed(line: str | bytes) -> Line | None:
    """What a line of the child says; None for one that is not its own."""
    try:
        said = json.loads(line)
        if said["event"] == "progress":
            return Progress(int(said["done_bytes"]), int(said["total_bytes"]), float(said["mib_s"]))
        if said["event"] == "retry":
            return Retry(str(said["detail"]), float(said["pause_s"]))
        if said["event"] == "result":
            return Outcome(
                str(said["kind"]), str(said.get("detail", "")), str(said.get("fix", "")), bool(said.get("may_pass", False)), said
            )
    except (ValueError, KeyError, TypeError):
        pass
    return None


def vanished(code: int, errors: str = "") -> Outcome:
    """The outcome of a child that ended without a word: killed, or unable to start."""
    last = next((line.strip() for line in reversed(errors.splitlines()) if line.strip()), "no message")
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return Outcome("error", f"the transfer {ended}: {last[:240]}", "nothing: it is tried again", True, {})


def run(command: list[str], env: Mapping[str, str], tell: Callable[[Progress | Retry], None] = lambda line: None) -> Outcome:
    """Run one transfer to its end and give the outcome. For programs that may wait; the supervisor reads the lines itself."""
    with subprocess.Popen(
        command, env=environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        outcome: Outcome | None = None
        for text in child.stdout:
            line = parsed(text)
            if isinstance(line, Outcome):
                outcome = line
            elif line is not None:
                tell(line)
        errors = child.stderr.read()
    return outcome or vanished(child.returncode, errors)
