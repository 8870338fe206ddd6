"""LoRA adapters: the slots that the engine allocates beside the weights before it sizes its cache.

Source: vLLM's ``lora/layers``: each linear layer holds, for each slot, A (rank x in) and B (out x rank) in 16 bits. Of a
column-parallel layer only B is split over ranks, of a row-parallel one only A, unless ``fully_sharded_loras`` splits both.
No record of a start with adapters was at hand: the sum is an estimate and its interval is wide.
"""

from __future__ import annotations

from compiler.plan.memory import GIB, Interval
from compiler.resolve.memory.inputs import MLA_KINDS, LayerGroup, MemoryInputs

BYTES = 2
USUAL_HIDDEN = 5_120
USUAL_LAYERS = 48
LATENT_HEAD = 256  # Key and value widths of one MLA head after expansion.


def lora_gib(inputs: MemoryInputs) -> Interval:
    """GiB of all slots on one rank; nothing without adapters. The low end leaves out the experts of a mixture, which
    releases before 0.12 and most adapters do not touch; the high end is half as much again."""
    lora = inputs.lora
    if lora is None:
        return Interval(0.0, 0.0, 0.0)
    slot = lora.rank * lora.adapters * BYTES / inputs.pp / GIB
    mixers = sum(group.layers for group in inputs.groups)
    layers = inputs.shape.layers or mixers or USUAL_LAYERS
    # Where more layers exist than mix tokens (Nemotron-H), the others are the MLPs; else each layer has one.
    mlps = layers - mixers if 0 < mixers < layers else layers
    attention = sum(group.layers * _mixer_widths(group, inputs) for group in inputs.groups)
    if not inputs.groups:  # A measured geometry says nothing of its layers.
        attention = layers * (_column(3, _hidden(inputs), 2 * _hidden(inputs), inputs) + _row(_hidden(inputs), _hidden(inputs), inputs))
    dense = 0.0 if inputs.shape.is_moe else mlps * _mlp_widths(_intermediate(inputs), inputs)
    experts = 0.0
    if inputs.shape.is_moe and inputs.release >= (0, 12, 0):
        width = inputs.shape.moe_intermediate or _hidden(inputs) // 2
        experts = mlps * (inputs.shape.experts or 1) * _mlp_widths(width, inputs)
    return Interval(0.7 * slot * (attention + dense), slot * (attention + dense + experts), 1.5 * slot * (attention + dense + experts))


def _column(parts: int, into: float, out: float, inputs: MemoryInputs) -> float:
    """Widths of a layer that is split by its outputs, made of ``parts`` layers that were merged."""
    return parts * into / _shards(inputs) + out / inputs.tp


def _row(into: float, out: float, inputs: MemoryInputs) -> float:
    """Widths of a layer that is split by its inputs."""
    return into / inputs.tp + out / _shards(inputs)


def _shards(inputs: MemoryInputs) -> int:
    return inputs.tp if inputs.lora is not None and inputs.lora.is_sharded else 1


def _mlp_widths(intermediate: float, inputs: MemoryInputs) -> float:
    """Gate, up and down."""
    hidden = _hidden(inputs)
    return _column(2, hidden, 2 * intermediate, inputs) + _row(intermediate, hidden, inputs)


def _mixer_widths(group: LayerGroup, inputs: MemoryInputs) -> float:
    """Projections into and out of one attention or state layer."""
    hidden = _hidden(inputs)
    if group.state is not None:
        inner = group.state.v_heads * group.state.v_dim
        keys = (group.state.k_heads or group.state.groups) * group.state.k_dim
        return _column(2, hidden, 2 * inner + 2 * keys, inputs) + _row(inner, hidden, inputs)
    if group.kind in MLA_KINDS:
        inner = (inputs.shape.heads or hidden // 128) * LATENT_HEAD
        return _column(3, hidden, 2 * inner, inputs) + _row(inner, hidden, inputs)
    query = (inputs.shape.heads * group.head_dim_k) or hidden
    values = group.kv_heads * (group.head_dim_k + (group.head_dim_v or group.head_dim_k))
    return _column(3, hidden, query + values, inputs) + _row(query, hidden, inputs)


def _hidden(inputs: MemoryInputs) -> int:
    return inputs.shape.hidden or USUAL_HIDDEN


def _intermediate(inputs: MemoryInputs) -> float:
    return inputs.shape.intermediate or 3.25 * _hidden(inputs)
