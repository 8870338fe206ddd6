"""What the answer to a request has to know of it."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Turn:
    """What an answer has to know of its request. Counts in tokens; `estimate` is of the input, `window` None: not known.
    `omits_thinking`: the client wants thinking blocks without their text; `hides_thinking`: none at all, it switched thinking off.
    `known_calls` are the ids of the conversation's calls."""

    model: str
    stream: bool = False
    max_tokens: int = 0
    window: int | None = None
    estimate: int = 1
    one_tool: bool = False
    forced_tool: str | None = None
    stop_sequences: tuple[str, ...] = ()
    guard: bool = False
    omits_thinking: bool = False
    hides_thinking: bool = False
    known_calls: frozenset[str] = frozenset()
    applied_edits: tuple[dict[str, Any], ...] = ()

    @property
    def claims(self) -> dict[str, Any]:
        """What an answer says of the edits that the request asked for; nothing where none changed anything."""
        return {"context_management": {"applied_edits": list(self.applied_edits)}} if self.applied_edits else {}
