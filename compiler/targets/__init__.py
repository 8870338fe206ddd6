"""The places to run, by name. A new one is a module and a line here."""

from __future__ import annotations

import importlib
from typing import cast

from compiler.targets.base import Target

TARGETS = {"docker": "compiler.targets.docker", "runpod": "compiler.targets.runpod"}


def target(name: str) -> Target:
    """The target of that name, imported when asked for. Raises KeyError for an unknown one."""
    return cast("Target", importlib.import_module(TARGETS[name]))
