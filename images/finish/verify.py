"""Check at build time that distributions are installed, by metadata: the engine itself cannot be asked without a GPU."""

from __future__ import annotations

import re
import sys
from importlib import metadata


def main(requirements: list[str]) -> int:
    """0 when every `name` or `name==version` holds; a local version such as `+cu130` counts as its release."""
    problems = []
    for requirement in requirements:
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?(?:==([^;\s]+))?", requirement)
        if not match:
            problems.append(f"{requirement}: not a requirement")
            continue
        name, wanted = match[1], match[2]
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            problems.append(f"{name}: not installed")
            continue
        print(f"{name} {found}")
        if wanted and found.split("+")[0] != wanted.split("+")[0]:
            problems.append(f"{name}: {found} is installed, {wanted} was asked for")
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
