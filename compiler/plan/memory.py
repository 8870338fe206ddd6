"""What the memory planner decided: frozen values, complete, and ready to print.

All sizes are GiB (2**30 bytes) on one GPU rank. An ``Interval`` holds what the planner thinks possible:
``mid`` is the best estimate, ``low`` and ``high`` bound what was seen on real start-ups.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Verdict = Literal["fits", "tight", "refused"]
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

GIB = 1 << 30


class MemoryWarning(StrEnum):
    """Codes of what a person should know although the engine may say nothing about it."""

    STATE_BLOCKS_BELOW_MAX_NUM_SEQS = "state-blocks-below-max-num-seqs"
    OUTSIDE_BUDGET_GROWTH = "outside-budget-growth"
    TWO_FULL_PREFILLS_TRANSIENT = "two-full-prefills-transient"
    KV_BYTES_SKIP_PROFILING = "kv-bytes-skip-profiling"
    GRAPHS_OUTSIDE_BUDGET = "graphs-outside-budget"
    BLOCKS_OVERRIDE = "blocks-override"
    DESKTOP_SHARES_CARD = "desktop-shares-card"
    COLD_START_NARROWER = "cold-start-narrower"
    SLIDING_BATCH_RESERVE = "sliding-batch-reserve"
    DRAFT_PRICED = "draft-priced"
    MEASURED_GEOMETRY = "measured-geometry"
    TOKEN_LINE_UNDERSTATES = "token-line-understates"
    HYBRID_MANAGER_OFF = "hybrid-manager-off"
    STATE_LAYERS_CANNOT_UNIFY = "state-layers-cannot-unify"
    SPECULATIVE_LOGITS = "speculative-logits"
    ENCODER_CHARGED = "encoder-charged"
    WIDE_OVERHEAD = "wide-overhead"


@dataclass(frozen=True, slots=True)
class Interval:
    """A value that is not known exactly: ``low <= mid <= high``, all in one unit."""

    low: float
    mid: float
    high: float

    def to_json(self, digits: int = 3) -> dict[str, JsonValue]:
        """The three values rounded to ``digits``; integers when ``digits`` is 0."""
        return {name: _rounded(value, digits) for name, value in
                (("low", self.low), ("mid", self.mid), ("high", self.high))}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """One share of the GPU's memory: its name, its size in GiB and where the number comes from."""

    name: str
    gib: float
    source: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """The measured start that corrected the cache's size: its record, and what differed there.

    ``differs``      the start's settings where they are not this plan's, in words
    ``measured_gib`` the cache that it had, on one rank
    ``expected_gib`` what the laws expect for it
    ``distance_gib`` sum of the parts' differences between that start and this plan
    ``slack_gib``    how wrong the correction may be here
    """

    evidence: str
    differs: tuple[str, ...]
    measured_gib: float
    expected_gib: float
    distance_gib: float
    slack_gib: float

    def to_json(self) -> dict[str, JsonValue]:
        """A plain dict, GiB with three digits."""
        return {
            "evidence": self.evidence,
            "differs": list(self.differs),
            "measured_gib": _rounded(self.measured_gib, 3),
            "expected_gib": _rounded(self.expected_gib, 3),
            "distance_gib": _rounded(self.distance_gib, 3),
            "slack_gib": _rounded(self.slack_gib, 3),
        }


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """How the memory of one GPU rank will be divided, and whether one full window fits.

    ``weights_gib``     weights of this rank, draft head included, offloaded bytes left out
    ``kv_gib``          memory left for the cache (negative: the weights alone exceed the budget)
    ``kv_tokens``       what the engine's log prints for the pool
    ``bytes_per_token`` bytes that one more token costs on this rank, over all layers
    ``block_size``      tokens in one attention block
    ``num_blocks``      blocks in the pool
    ``concurrency``     requests of one full window that the pool holds
    ``longest_context`` the largest window admitted at the middle estimate (not capped at the asked one)
    ``longest_context_safe`` the same at the low end
    ``needed_gib``      cache that one full window needs
    ``shortfall_gib``   what is missing at the middle estimate, 0 when it fits
    ``utilization``     share of the card that the engine was told to take
    ``calibration``     the measured start of this model on this hardware that corrected ``kv_gib``, if one is near enough
    ``parts``           add up to the card; the last one, ``free``, is negative when they do not fit
    """

    verdict: Verdict
    max_model_len: int
    weights_gib: float
    kv_gib: Interval
    kv_tokens: Interval
    bytes_per_token: float
    block_size: int
    num_blocks: Interval
    concurrency: Interval
    longest_context: int
    longest_context_safe: int
    needed_gib: float
    shortfall_gib: float
    total_gib: float
    requested_gib: float
    utilization: float
    outside_budget_gib: Interval
    parts: tuple[MemoryPart, ...]
    calibration: Calibration | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[MemoryWarning, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """A plain dict in a fixed order of keys; GiB with three digits, counts as integers."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "max_model_len": self.max_model_len,
            "utilization": _rounded(self.utilization, 4),
            "total_gib": _rounded(self.total_gib, 3),
            "requested_gib": _rounded(self.requested_gib, 3),
            "weights_gib": _rounded(self.weights_gib, 3),
            "kv_gib": self.kv_gib.to_json(),
            "kv_tokens": self.kv_tokens.to_json(0),
            "bytes_per_token": _rounded(self.bytes_per_token, 3),
            "block_size": self.block_size,
            "num_blocks": self.num_blocks.to_json(0),
            "concurrency": self.concurrency.to_json(2),
            "longest_context": self.longest_context,
            "longest_context_safe": self.longest_context_safe,
            "needed_gib": _rounded(self.needed_gib, 3),
            "shortfall_gib": _rounded(self.shortfall_gib, 3),
            "outside_budget_gib": self.outside_budget_gib.to_json(),
            "calibration": self.calibration.to_json() if self.calibration else None,
            "parts": [{"name": p.name, "gib": _rounded(p.gib, 3), "source": p.source} for p in self.parts],
            "notes": list(self.notes),
            "warnings": [w.value for w in self.warnings],
        }


def _rounded(value: float, digits: int) -> float | int:
    """``value`` at ``digits`` places; whole numbers become ``int`` and ``-0.0`` becomes ``0``."""
    near = round(float(value), digits)
    return int(near) if near == int(near) else near
