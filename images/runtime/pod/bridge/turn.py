"""What the answer to a request has to know of it."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Turn:
    """What an answer has to know of its request. Counts in tokens; `estimate` is of the input, `window` None: not known.
    `omits_thinking`: the client wants thinking blocks without their text."""

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
