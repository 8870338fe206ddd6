"""apt leaves its package lists in a layer, or takes several packages at a time.

## What it flags
A `RUN` line that installs with apt and does not delete `/var/lib/apt/lists`, or that installs several packages in one
call outside the install script.

## Why it hurts
The lists are dead weight in every pull; and one wrong name among several takes all of them down, without saying which.

## Example
    RUN apt-get update && apt-get install -y cuda-nvcc-13-0 cuda-curand-dev-13-0

## Use instead
RUN /opt/podwright/common/install-apt.sh optional cuda-nvcc-13-0 libcurand-dev-13-0, which goes one by one and cleans
up.

## When to ignore
Never.

## Source
Bootstrap notes on CUDA headers; hadolint DL3009.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.built import instructions
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(code="IMG013", name="package-lists-kept", severity=Severity.WARNING, stage="artifacts", traps=("image-apt-lists",))


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each line that leaves lists."""
    for place, word, rest in instructions(subject):
        if word == "RUN" and re.search(r"\bapt(-get)?\b.*\binstall\b", rest):
            packages = [
                w for w in re.split(r"\binstall\b", rest, maxsplit=1)[1].split("&&")[0].split() if not w.startswith("-") and w != "\\"
            ]
            if "/var/lib/apt/lists" not in rest:
                yield Hit(
                    place, "apt's package lists stay in the layer", "every pull carries them", "delete /var/lib/apt/lists in the same RUN"
                )
            elif len(packages) > 1:
                yield Hit(place, "several packages in one apt call", "one wrong name takes all of them down", "install them one by one")
