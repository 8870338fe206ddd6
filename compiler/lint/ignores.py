"""Accepted findings: which diagnostics an `ignore:` entry takes away, and what is wrong with entries themselves.

A finding is accepted by its rule's code, with a reason. A warning and an info can always be accepted. An error can be
accepted only where it speaks of the result (slow, lossy, unproven); where the engine itself refuses to start, accepting
the finding changes nothing, so it stays.
"""

from __future__ import annotations

import dataclasses

from compiler.diagnostics import Place


@dataclasses.dataclass(frozen=True, slots=True)
class IgnoreUse:
    """One `ignore:` entry and what became of it.

    `known` is false for a code that no rule has, `nearest` is then the code spelled most like it; `hits` counts the
    findings of that code; `kept` is true when at least one of them could not be accepted.
    """

    code: str
    place: Place
    known: bool
    nearest: str | None
    hits: int
    kept: bool
