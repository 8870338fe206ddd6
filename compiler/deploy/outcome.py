"""How a command of this layer ends: its exit code, and a failure as text or JSON."""

from __future__ import annotations

import sys

from compiler.console import print_json
from compiler.deploy.failures import DeployError

OK, REFUSED, FAILED = 0, 1, 4


def failed(failure: DeployError, *, as_json: bool) -> int:
    """Print a failure; the exit code."""
    if as_json:
        print_json({"ok": False} | failure.to_json())
    else:
        print(failure.formatted(), file=sys.stderr)
    return FAILED
