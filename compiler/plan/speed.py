"""What speed the plan expects, and on which measurements that rests: frozen values, ready to print. No evidence, no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compiler.plan.memory import Interval


@dataclass(frozen=True, slots=True)
class SpeedFigure:
    """One expected rate in tokens a second, of all `sessions` together; `context` is the prompt in tokens of each, 0 where its length was not recorded."""

    kind: Literal["solo", "aggregate", "prefill"]
    sessions: int
    context: int
    tok_s: Interval


@dataclass(frozen=True, slots=True)
class SpeedPlan:
    """Expected speed without speculation.

    ``basis``    whose records: of the same model on this hardware, of other models on it, or none
    ``reason``   in a sentence: which records, or why there is no number
    ``law``      the time of one token of one session as a sum, empty without a number
    ``figures``  the rates; empty when ``basis`` is ``none``
    ``evidence`` the measurements that calibrate it, as topic/id: they are no proof of it
    """

    basis: Literal["same-model", "same-hardware", "none"]
    reason: str
    law: str
    figures: tuple[SpeedFigure, ...]
    evidence: tuple[str, ...]
