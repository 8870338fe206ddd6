"""What a measured start of the same model on the same hardware says about this one.

No law gives the overhead; a start that was measured does, for its own settings. The laws are trusted for what differs
between two starts, not for the whole: the distance of a measured start from its own expectation is carried over, and
the interval shrinks to what such a carry-over was ever wrong by. Recorded pairs that differ in settings alone show it
(``tests/unit/resolve/memory/test_memory_calibration.py``): at most 0.15 GiB on an H200; on two A40 0.41 between batches of
4,096 and 16,384 tokens (0.93 GiB of parts differ) and 0.75 with a draft model; 0.97 on Flash-Next with and without its draft (6.8).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum

from compiler.plan.memory import GIB, Calibration, Interval
from compiler.resolve.memory.budget import Budget, memory_budget
from compiler.resolve.memory.groups import cache_layout
from compiler.resolve.memory.inputs import MemoryInputs
from compiler.resolve.memory.overhead import cold_start_gib

NEAR_GIB = 0.15  # the most that a carry-over was wrong by between starts whose parts differ little
ROOM_GIB = 0.5  # beyond the laws' interval, where a measured start is still believed rather than its facts doubted
SHARE_OF_DIFFERENCE = 0.5  # of the parts that differ, on top


@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """A start of the same model on the same hardware: what the engine then had for its cache on one rank.

    ``inputs`` are the plan's own with the settings that were in force; ``differs`` says which those are, in words. One of ``kv_gib`` and
    ``kv_tokens`` is known: the log prints either.
    """

    evidence: str
    inputs: MemoryInputs
    kv_gib: float | None = None
    kv_tokens: int | None = None
    differs: tuple[str, ...] = ()

    @property
    def measured_gib(self) -> float:
        """GiB of cache, from the tokens by the start's own layout where the log printed only those."""
        if self.kv_gib is not None:
            return self.kv_gib
        layout, window, wanted = cache_layout(self.inputs), self.inputs.max_model_len, self.kv_tokens or 0
        low, high = 0, 1
        while layout.tokens(high, window) < wanted and high < 1 << 40:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if layout.tokens(middle, window) < wanted else (low, middle)
        return high * layout.bytes_per_block / GIB


def calibrated(inputs: MemoryInputs, budget: Budget, starts: tuple[MeasuredStart, ...]) -> tuple[Budget, Calibration | None]:
    """The budget as the nearest measured start corrects it, and by which one; unchanged where none is near enough to narrow it.

    A fixed cache has nothing to correct, and a start outside its own interval is of other facts: a plan that changes the weights or the card
    must not be pulled back to it. The low end also allows for a first start, since a record seldom says whether compiled code was at hand.
    """
    if budget.fixed or not starts:
        return budget, None
    carried = [one for start in starts if (one := _carried(budget, start)) is not None]
    if not carried:
        return budget, None
    near = min(carried, key=lambda one: one.slack_gib)
    kv, first = budget.kv, cold_start_gib(inputs)
    if 2 * near.slack_gib + first >= kv.high - kv.low:
        return budget, None
    mid = kv.mid + near.measured_gib - near.expected_gib
    low, high = min(near.slack_gib + first, kv.mid - kv.low), min(near.slack_gib, kv.high - kv.mid)
    return replace(budget, kv=Interval(mid - low, mid, mid + high)), near


def _carried(budget: Budget, start: MeasuredStart) -> Calibration | None:
    """How far a start is away, in GiB of parts that differ, and how wrong its correction may be here; None for one of other facts."""
    there = memory_budget(start.inputs)
    if not there.kv.low - ROOM_GIB <= start.measured_gib <= there.kv.high + ROOM_GIB:
        return None
    here_parts, there_parts = _parts(budget), _parts(there)
    distance = fsum(abs(here - that) for here, that in zip(here_parts, there_parts, strict=True))
    return Calibration(start.evidence, start.differs, start.measured_gib, there.kv.mid, distance, NEAR_GIB + SHARE_OF_DIFFERENCE * distance)


def _parts(budget: Budget) -> tuple[float, ...]:
    extra = budget.extra
    return budget.weights.mid, extra.activation.mid, extra.non_torch.mid, extra.graphs_charged.mid
