"""One run seen from outside: something that was started, can be asked how far it is, told to end, and leaves nothing."""

from __future__ import annotations

import dataclasses
import http.client
import json
import subprocess
from pathlib import Path
from typing import Any, Protocol

# Bounds one question on loopback, which is answered from memory.
ASK_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """How far a run is: its state, what it is doing, whether a request would be answered, and why it never will be."""

    state: str
    detail: str = ""
    serves: bool = False
    failure: tuple[str, str] | None = None
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


class Run(Protocol):
    """A way to run a profile here. `log` is where its output goes; `limit_s` bounds its end after the first signal."""

    log: Path
    limit_s: float

    def start(self) -> subprocess.Popen[bytes]:
        """Start it. It gets SIGTERM when we die. Raises OSError."""

    def look(self) -> Seen:
        """How far it is."""

    def left(self) -> list[str]:
        """What is still there, by name, once the started process has ended."""

    def remove(self) -> None:
        """End what is still there, whatever it takes."""


def asked(port: int, path: str) -> tuple[int, Any]:
    """One question on loopback; status 0 where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_S)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    except (OSError, ValueError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


def bootstrap_failure(text: str) -> tuple[str, str] | None:
    """Why a bootstrap gave up, and what to do, from its log; None where it did not."""
    cause = fix = ""
    for line in text.splitlines():
        if line.startswith("[bootstrap] ") and (words := line.split(" ", 3))[2:3]:
            cause = words[3] if words[2] == "FATAL" and len(words) > 3 else cause
            fix = words[3].strip() if words[2] == "FIX" and len(words) > 3 else fix
    return (cause, fix) if cause else None
