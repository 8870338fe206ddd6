"""Work in a fork of this process, so that what an engine leaves behind ends with it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

LONGEST_ERROR = 1500


class Refused(Exception):
    """The engine's own words, and at which stage it said them."""

    def __init__(self, stage: str, words: str) -> None:
        super().__init__(words)
        self.stage = stage


def in_child(work: Callable[[], dict[str, Any]], deadline: float) -> dict[str, Any]:
    """What `work` gives in a fork of this process. A child that outlives the deadline is ended and says so."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()
        try:
            answer = work()
        except Refused as error:
            answer = {"accepted": False, "stage": error.stage, "error": str(error)[:LONGEST_ERROR]}
        except BaseException as error:  # the child must end here whatever the engine raised
            answer = {"accepted": False, "stage": "configuration", "error": f"{type(error).__name__}: {error}"[:LONGEST_ERROR]}
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(answer, default=str))
        os._exit(0)
    os.close(writing)
    text = read_until(reading, deadline)
    os.close(reading)
    if text is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not text:
        return {
            "accepted": False,
            "stage": "none",
            "error": "the engine gave no answer in time" if text is None else "the engine's process ended without an answer",
        }
    return dict(json.loads(text))


def read_until(pipe: int, deadline: float) -> str | None:
    """A pipe's text up to its end; None when the deadline came first."""
    chunks: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            return None
        chunk = os.read(pipe, 65536)
        if not chunk:
            return b"".join(chunks).decode()
        chunks.append(chunk)
    return None
