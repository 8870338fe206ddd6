"""`podwright bridge`: the pod's Anthropic endpoint alone, on this machine."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from compiler.command_support import Exit

NEEDED = ("httptools",)  # Every vLLM image has it; the compiler itself does not need it.


def bridge(context: typer.Context) -> None:
    """Run the Anthropic bridge alone, in front of any vLLM, on this machine. `podwright bridge --help` lists its options.

    Examples:

      podwright bridge --upstream http://127.0.0.1:18081

      podwright bridge --listen 0.0.0.0:8080 --upstream http://gpu:8000 --api-key-env BRIDGE_KEY
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing and not {"--help", "-h"} & set(context.args):
        print(f"podwright: the bridge needs {', '.join(missing)}\n  why: a vLLM image has it, this environment does not.\n  fix: pip install 'podwright[bridge]', in a checkout pip install -e '.[bridge]'.", file=sys.stderr)
        raise typer.Exit(Exit.FAILED)
    os.execv(sys.executable, [sys.executable, "-m", "pod.bridge", *context.args])
