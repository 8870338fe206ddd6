"""Test help: the command in this process, and in one of its own."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from compiler import cli
from tests.support import ROOT


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def podwright(*args: str | Path) -> Ended:
    """The command with these arguments, in this process. An exception that would be a traceback comes out."""
    out, err = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code: object = None
            try:
                cli.main([str(a) for a in args])
            except SystemExit as end:
                code = end.code
    finally:
        signal.signal(signal.SIGTERM, handler)
    return Ended(int(code or 0) if isinstance(code, (int, type(None))) else 1, out.getvalue(), err.getvalue())


def environment(**changes: str) -> dict[str, str]:
    """A small environment for a process of its own."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'images' / 'runtime'}", "PYTHONDONTWRITEBYTECODE": "1", **changes}


def process(*args: str | Path, cwd: Path = ROOT, python: str = sys.executable, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    return subprocess.run([python, "-c", "from compiler.cli import main; main()", *map(str, args)], cwd=cwd, env=environment(**changes), capture_output=True, timeout=120, check=False)
