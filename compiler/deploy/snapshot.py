"""Runs the flag snapshot inside an engine's own environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# Building the real parser imports the whole engine: 10 s here, several times that on a cold disk.
TIMEOUT_S = 300
OK, FAILED = 0, 4


def run_snapshot(python: Path, script: Path, out: Path | None) -> int:
    """Take the snapshot with that Python and write it to `out` (None: stdout). Gives the exit code."""
    try:
        done = subprocess.run([str(python), str(script)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"cannot take the snapshot with {python}: {error}", file=sys.stderr)
        return FAILED
    text = done.stdout
    if done.returncode != 0 or not _is_snapshot(text):
        print(f"{python} gave no snapshot (exit code {done.returncode}). The end of what it said:\n{done.stderr[-2000:]}", file=sys.stderr)
        return FAILED
    if out is None:
        sys.stdout.write(text)
        return OK
    staging = out.with_name(f".{out.name}.new")
    staging.write_text(text, encoding="utf-8")
    staging.replace(out)
    print(f"wrote {out}: {json.loads(text)['flags_count']} flags of {json.loads(text)['release']}")
    return OK


def _is_snapshot(text: str) -> bool:
    try:
        return "flags_count" in json.loads(text)
    except ValueError:
        return False
