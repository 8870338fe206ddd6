"""`python held.py REQUIREMENT...` prints a constraint for each distribution of this interpreter, at the version that is there.

The named requirements stand for themselves: what they pin is held at that version instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib import metadata

# Versions that an installer can read. A distribution's own tools carry others, such as 2.7.7+ubuntu4, and no extra needs them.
_VERSION = re.compile(r"(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?", re.IGNORECASE)
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(.*)$")


def held(installed: Iterable[tuple[str, str]], wanted: Iterable[str]) -> list[str]:
    """One line for each distribution, sorted; `installed` are names and versions, of which the first of a name counts."""
    lines: dict[str, str] = {}
    for requirement in wanted:
        match = _REQUIREMENT.match(requirement)
        if not match:
            raise SystemExit(f"not a requirement: {requirement!r}")
        lines[_normal(match[1])] = f"{match[1]}{match[2]}" if match[2] else ""
    for name, version in installed:
        if _VERSION.fullmatch(version):
            lines.setdefault(_normal(name), f"{name}=={version}")
    return sorted(line for line in lines.values() if line)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed() -> Iterable[tuple[str, str]]:
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            yield name, distribution.version


if __name__ == "__main__":
    print("\n".join(held(_installed(), sys.argv[1:])))
