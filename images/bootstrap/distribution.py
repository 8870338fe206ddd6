"""`python distribution.py REQUIREMENT` prints `ok`, `absent`, or `other VERSION` for this environment.

Reads metadata only: importing the engine, or asking for its version on the command line, fails where no GPU is seen.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata


def state(requirement: str) -> str:
    """Whether the distribution is there, extras' distributions not counted, in a version that the requirement admits."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*(.*)$", requirement)
    if not match:
        raise SystemExit(f"not a requirement: {requirement!r}")
    try:
        found = metadata.version(match[1])
    except metadata.PackageNotFoundError:
        return "absent"
    return "ok" if _admits(match[2].split(";")[0].strip(), found) else f"other {found}"


def _admits(specifier: str, version: str) -> bool:
    if not specifier:
        return True
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return specifier.startswith("==") and specifier.removeprefix("==").strip() == version.split("+")[0]
    return SpecifierSet(specifier).contains(version, prereleases=True)


if __name__ == "__main__":
    print(state(sys.argv[1]))
