"""The budget of one rank: what is asked for, what the weights take, and what is left for the cache.

Source: vLLM 0.27.1, ``v1/worker/gpu_worker.py: determine_available_memory`` and
``v1/worker/utils.py: request_memory``; confirmed to the byte on 0.26.0:
``cache = ceil(total * utilization) - weights - activation - non-torch - graph estimate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, fsum

from compiler.plan.memory import GIB, Interval
from compiler.resolve.memory.adapters import lora_gib
from compiler.resolve.memory.inputs import MemoryInputs
from compiler.resolve.memory.overhead import Overhead, card_total_gib, is_small_eager, overhead, spread


@dataclass(frozen=True, slots=True)
class Budget:
    """GiB on one rank. ``kv`` may be negative; ``fixed`` tells that the caller set the cache's size."""

    total: Interval
    requested: Interval
    weights: Interval
    extra: Overhead
    kv: Interval
    fixed: bool


def memory_budget(inputs: MemoryInputs) -> Budget:
    """The budget for ``inputs``."""
    total, weights, extra = card_total_gib(inputs.card), _with_adapters(rank_weights_gib(inputs), lora_gib(inputs)), overhead(inputs)
    share = inputs.utilization
    requested = Interval(*(ceil(value * GIB * share) / GIB for value in (total.low, total.mid, total.high)))
    if inputs.kv_cache_memory_bytes is not None:
        size = inputs.kv_cache_memory_bytes / GIB
        return Budget(total, requested, weights, extra, Interval(size, size, size), True)
    taken = [weights, extra.activation, extra.non_torch, extra.graphs_charged]
    mid = requested.mid - fsum(part.mid for part in taken)
    fall = spread([*taken, _mirrored(requested)], +1)
    parts = [*taken, _mirrored(requested)]
    # On a small GPU a few hundred MiB are all there is, and the parts that differ there differ together.
    rise = fsum(part.mid - part.low for part in parts) if is_small_eager(inputs) else spread(parts, -1)
    return Budget(total, requested, weights, extra, Interval(mid - fall, mid, mid + rise), False)


def rank_weights_gib(inputs: MemoryInputs) -> Interval:
    """Weights on one rank.

    Split by tensor and pipeline parallelism except ``replicated``. Experts also by data parallelism, whole ones with expert
    parallelism and slices of each without (``fused_moe/config.py: FusedMoEParallelConfig``, unchanged up to 0.33). Loaded weights are 0.1-0.2 % above the checkpoint on an H200 (buffers such as rotary
    tables), 0.7 % and 2.2 % in two other logs; pipeline stages are uneven by an embedding or a head.
    """
    weights, host = inputs.weights, inputs.cpu_offload_bytes
    if weights.per_rank is not None:
        size = max(0, weights.per_rank - host) / GIB
        return Interval(size, size, size)
    vision = weights.vision if inputs.language_model_only else 0
    experts = weights.experts
    split = max(0, weights.total - weights.replicated - experts - vision)
    ranks = inputs.tp * inputs.pp
    draft = (inputs.speculation.weights_bytes if inputs.speculation else 0) / inputs.tp
    held = split / ranks + weights.replicated / inputs.pp + experts / (ranks * inputs.dp) + draft
    size = max(0.0, held - weights.offloaded / ranks - host) / GIB
    uneven = inputs.shape.hidden * inputs.shape.vocab * 2 / inputs.tp / GIB if inputs.pp > 1 else 0.0
    return Interval(size * 0.985, size * 1.004, size * 1.03 + uneven)


def _with_adapters(weights: Interval, adapters: Interval) -> Interval:
    """Both together: the engine allocates the adapters' slots while it loads the weights."""
    return Interval(weights.low + adapters.low, weights.mid + adapters.mid, weights.high + adapters.high)


def _mirrored(interval: Interval) -> Interval:
    """The interval reflected around its middle: more budget is less that is taken."""
    mid = interval.mid
    return Interval(mid - (interval.high - mid), mid, mid + (mid - interval.low))
