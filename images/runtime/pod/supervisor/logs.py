"""Files that children write into are kept from growing for ever."""

from __future__ import annotations

import contextlib
from pathlib import Path

# A log is cut when it is larger; what is cut stays beside it, so that twice as much is on disk at most.
LIMIT_BYTES = 64 << 20


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
