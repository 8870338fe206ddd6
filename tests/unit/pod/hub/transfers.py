"""Runs transfers as the pod does: in a child process, with the real huggingface_hub, against the Hub of `tests.hub_server`."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pod.hub import child
from pod.hub.child import Outcome, Progress, Retry

from tests.hub_server import Hub

RUNTIME = Path(__file__).resolve().parents[4] / "images/runtime"
REPO = "owner/model"
# Quick where only the repetition matters, and not how long the pauses are.
_IMPATIENT = """
import json, sys
from pathlib import Path
from pod.hub import transfer
result = transfer.download(sys.argv[1], None, Path(sys.argv[2]), lambda line: print(json.dumps(line), flush=True), pauses_s=(0.2, 0.2))
print(json.dumps({"event": "result", **result}), flush=True)
"""


def safetensors(size: int, seed: int = 0) -> bytes:
    """A well-formed file of `size` bytes with one tensor, whose content differs by `seed` and by place."""
    header = {"w": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}
    for _ in range(3):
        text = json.dumps(header).encode()
        count = size - 8 - len(text)
        header["w"].update(shape=[count], data_offsets=[0, count])
    text = json.dumps(header).encode()
    count = size - 8 - len(text)
    block = b"".join((i * 2654435761 + seed).to_bytes(8, "little") for i in range(count // 8 + 1))
    return len(text).to_bytes(8, "little") + text + block[:count]


def env_of(hub: Hub, token: str | None = None, **more: str) -> dict[str, str]:
    """The environment of a child that uses this Hub and nothing of this machine's."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(RUNTIME),
        "HOME": "/nonexistent",
        "NO_PROXY": "127.0.0.1",
        **hub.env(token),
        **more,
    }


@dataclasses.dataclass
class Transfer:
    """What one child said and how it ended."""

    outcome: Outcome
    told: list[Progress | Retry]
    text: str


def transferred(command: list[str], env: dict[str, str], timeout: float = 60.0, limit: str = "") -> Transfer:
    """Run to the end. `limit` is a shell command before it, for instance a ulimit."""
    words = ["bash", "-c", f'{limit}; exec "$@"', "bash", *command] if limit else command
    done = subprocess.run(words, env=child.environment(env), capture_output=True, text=True, timeout=timeout, check=False)
    lines = [child.parsed(line) for line in done.stdout.splitlines()]
    outcome = next((line for line in lines if isinstance(line, Outcome)), None) or child.vanished(done.returncode, done.stderr)
    return Transfer(outcome, [line for line in lines if isinstance(line, (Progress, Retry))], done.stdout + done.stderr)


def download_command(cache: Path, **options: Any) -> list[str]:
    return child.argv("download", **{"repo": REPO, "cache": cache, **options})


def impatient(cache: Path) -> list[str]:
    """A download whose pauses are a fifth of a second."""
    return [sys.executable, "-c", _IMPATIENT, REPO, str(cache)]
