"""One event being answered: the state as it becomes, and the effects that follow."""

from __future__ import annotations

import dataclasses
from typing import Any

from pod.supervisor.effects import Effect, Record
from pod.supervisor.state import State


@dataclasses.dataclass
class Turn:
    """Collects what one event leads to. `now` in seconds of a clock that never jumps."""

    state: State
    now: float
    effects: list[Effect] = dataclasses.field(default_factory=list)

    def set(self, **changes: Any) -> None:
        """Change fields of the state."""
        self.state = self.state.but(**changes)

    def do(self, *effects: Effect) -> None:
        """Effects that follow, in order."""
        self.effects.extend(effects)

    def record(self, kind: str, message: str, **facts: Any) -> None:
        """A line for the journal."""
        self.effects.append(Record(kind, message, facts))
