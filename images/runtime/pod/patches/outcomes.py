"""How a repair ended. A refusal changed nothing, and says what to do."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


@dataclasses.dataclass(frozen=True)
class Applied:
    """The repair was made now."""

    name: str
    detail: str


@dataclasses.dataclass(frozen=True)
class AlreadyThere:
    """Nothing was to be done."""

    name: str
    detail: str


@dataclasses.dataclass(frozen=True)
class Refused:
    """The repair was not made, and what it was for does not work without it. `may_pass`: later it may be."""

    name: str
    reason: str
    fix: str
    may_pass: bool = False


Outcome = Applied | AlreadyThere | Refused
_KINDS: dict[str, type[Any]] = {"applied": Applied, "already-there": AlreadyThere, "refused": Refused}


def as_line(outcome: Outcome) -> str:
    """One JSON line, with the kind under `event`."""
    kind = next(kind for kind, of in _KINDS.items() if isinstance(outcome, of))
    return json.dumps({"event": kind, **dataclasses.asdict(outcome)})


def of_line(line: str) -> Outcome | None:
    """The outcome in a line that `as_line` made; None for any other line."""
    try:
        said = json.loads(line)
        found: Outcome = _KINDS[said.pop("event")](**said)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found
