"""Files that children write into: their ends, and how they are kept from growing for ever."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

# A log is cut when it is larger; what is cut stays beside it, so that twice as much is on disk at most.
LIMIT_BYTES = 64 << 20
_ERROR = re.compile(r"^(?:.*?\b)?((?:[A-Za-z_.]*(?:Error|Exception)|OutOfMemoryError): .+)$")
_NO_CAUSE = ("Engine core initialization failed", "EngineDeadError", "EngineCore encountered an issue", "Engine process failed to start")


def end_of(path: Path, size: int) -> str:
    """The last bytes of a file as text, from the start of a line; empty where it cannot be read."""
    try:
        with path.open("rb") as stream:
            length = stream.seek(0, 2)
            stream.seek(max(0, length - size))
            data = stream.read(size)
    except OSError:
        return ""
    text = data.decode("utf-8", "replace")
    return text.partition("\n")[2] if length > size else text


def errors_of(text: str) -> str:
    """The error in a log that says why: the last one that is more than the news that something else failed."""
    found = [match.group(1) for line in text.splitlines() if (match := _ERROR.match(line.strip()))]
    telling = [error for error in found if not any(part in error for part in _NO_CAUSE)]
    return (telling or found or [""])[-1][:300]


def rotate(path: Path, limit: int = LIMIT_BYTES) -> bool:
    """Cut a log that grew too large, keeping what it held beside it. Its writer appends, so it goes on at the new beginning."""
    with contextlib.suppress(OSError):
        if path.stat().st_size > limit:
            with path.open("rb") as stream, path.with_suffix(path.suffix + ".1").open("wb") as kept:
                while chunk := stream.read(1 << 20):
                    kept.write(chunk)
            with path.open("r+b") as stream:
                stream.truncate(0)
            return True
    return False
