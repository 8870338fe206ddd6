"""The memory planner: how vLLM will size its cache, before a GPU is rented.

``memory_plan(inputs)`` is the whole interface; the inputs are plain values in ``MemoryInputs``. Pure functions
only. The formulae stand beside the code that uses them; ``docs/memory.md`` tells how exact they are.
"""

from __future__ import annotations

from math import fsum

from compiler.plan.memory import GIB, Calibration, Interval, MemoryPart, MemoryPlan
from compiler.resolve.memory.budget import Budget, memory_budget
from compiler.resolve.memory.calibration import MeasuredStart, calibrated
from compiler.resolve.memory.groups import cache_layout
from compiler.resolve.memory.inputs import (
    CardMemory,
    LayerGroup,
    Lora,
    MeasuredKV,
    MemoryInputs,
    ModelShape,
    Speculation,
    StateDims,
    Weights,
)
from compiler.resolve.memory.layout import CacheLayout
from compiler.resolve.memory.overhead import context_gib
from compiler.resolve.memory.verdict import Sizing, judge

__all__ = ["CacheLayout", "CardMemory", "LayerGroup", "Lora", "MeasuredKV", "MeasuredStart", "MemoryInputs", "ModelShape",
           "Speculation", "StateDims", "Weights", "cache_layout", "longest_window", "memory_plan"]


def memory_plan(inputs: MemoryInputs, starts: tuple[MeasuredStart, ...] = ()) -> MemoryPlan:
    """How one GPU rank's memory is divided, and whether one full window fits; ``starts`` are measured ones of the same model on the same
    hardware, of which the nearest corrects the cache.

    Raises ``ValueError`` when ``inputs`` names a cache or state dtype that the planner does not know.
    """
    (budget, calibration), layout = calibrated(inputs, memory_budget(inputs), starts), cache_layout(inputs)
    sizing = _sizing(inputs, budget, layout)
    findings = judge(sizing, calibration)
    length, kv = inputs.max_model_len, sizing.kv_check
    low, mid, high = sizing.blocks
    return MemoryPlan(
        verdict=findings.verdict, max_model_len=length, weights_gib=budget.weights.mid, kv_gib=budget.kv,
        kv_tokens=Interval(*(float(layout.tokens(b, length)) for b in sizing.blocks)),
        bytes_per_token=layout.bytes_per_token, block_size=layout.block_size,
        num_blocks=Interval(float(low), float(mid), float(high)),
        concurrency=Interval(*(layout.concurrency(b, length) for b in sizing.blocks)),
        longest_context=layout.longest(kv.mid * GIB), longest_context_safe=layout.longest(kv.low * GIB),
        needed_gib=sizing.needed_gib, shortfall_gib=max(0.0, sizing.needed_gib - kv.mid),
        total_gib=budget.total.mid, requested_gib=budget.requested.mid, utilization=inputs.utilization,
        outside_budget_gib=budget.extra.outside, parts=_parts(inputs, budget, calibration), calibration=calibration,
        reasons=tuple(findings.refused or findings.tight), notes=tuple(findings.notes),
        warnings=tuple(findings.warnings))


def longest_window(inputs: MemoryInputs) -> int:
    """The largest window in tokens that the engine would admit at the middle estimate; 0 when none."""
    return memory_plan(inputs).longest_context


def _sizing(inputs: MemoryInputs, budget: Budget, layout: CacheLayout) -> Sizing:
    """Block counts at the three estimates; an override replaces them and what admission is checked against."""
    override = inputs.num_gpu_blocks_override
    if override is None:
        kv = budget.kv
        counts = (layout.blocks(kv.low * GIB), layout.blocks(kv.mid * GIB), layout.blocks(kv.high * GIB))
        return Sizing(inputs, budget, layout, kv, counts)
    size = override * layout.bytes_per_block / GIB
    return Sizing(inputs, budget, layout, Interval(size, size, size), (override, override, override))


def _parts(inputs: MemoryInputs, budget: Budget, calibration: Calibration | None) -> tuple[MemoryPart, ...]:
    """Shares that add up to the card; ``free`` takes what is left, below zero when they do not fit. What a measured start corrects is
    taken off the activation, the part that no law gives."""
    extra, cache = budget.extra, "fixed size" if budget.fixed else "budget - the parts above"
    corrected = calibration.measured_gib - calibration.expected_gib if calibration else 0.0
    how = f"corrected by {calibration.evidence}" if calibration else "estimated"
    kv = max(0.0, budget.kv.mid)
    charged = max(0.0, extra.graphs_charged.mid)
    parts = [
        MemoryPart("weights", budget.weights.mid, "checkpoint / ranks + replicated + draft"),
        MemoryPart("activation", extra.activation.mid - corrected, f"one batch of {inputs.batch} tokens, {how}"),
        MemoryPart("non_torch", extra.non_torch.mid, "measured on like starts"),
        MemoryPart("cuda_graphs", charged, "estimate charged to the share"),
        MemoryPart("kv_cache", kv, cache),
        MemoryPart("cuda_context", context_gib(inputs.card).mid, "outside the share, counted nowhere"),
        MemoryPart("outside_budget", extra.outside.mid, "graphs and growth beyond the share, estimated"),
        MemoryPart("already_used", inputs.card.already_used_bytes / GIB, "given"),
    ]
    free = budget.total.mid - fsum(part.gib for part in parts)
    return (*parts, MemoryPart("free", free, "what is left of the card"))
