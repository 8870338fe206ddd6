"""How layers become groups that share one pool of equal blocks, and what follows from it in closed form.

Source: vLLM 0.27.1, ``v1/core/kv_cache_utils.py`` (``_get_kv_cache_groups_uniform_page_size``,
``unify_kv_cache_spec_page_size``, ``get_kv_cache_capacity``) and ``platforms/interface.py``
(``_align_heterogeneous_kv_block_size``). All bytes are those of one rank.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from compiler.resolve.memory import pages, releases
from compiler.resolve.memory.blocks import (
    KERNEL_BLOCK,
    extra_states,
    hybrid_block,
    inflight_tokens,
    minimum_block,
    state_bytes,
    token_bytes,
)
from compiler.resolve.memory.inputs import FULL_KINDS, MLA_KINDS, STATE_KINDS, LayerGroup, MeasuredKV, MemoryInputs
from compiler.resolve.memory.layout import Bucket, CacheLayout
from compiler.resolve.memory.packed import is_packed, packed_layout


def cache_layout(inputs: MemoryInputs) -> CacheLayout:
    """The pool's geometry for ``inputs``; raises ``ValueError`` for a cache or state dtype not known.

    The engine groups the layers of the whole model and gives each pipeline stage its share of every group.
    """
    if isinstance(inputs.geometry, MeasuredKV):
        return _measured_layout(inputs.geometry, inputs)
    if is_packed(inputs):
        return packed_layout(inputs)
    shapes = _model_shapes(inputs)
    if _is_uniform(shapes):
        buckets = _uniform_buckets(shapes, inputs)
        return _checked(_layout(buckets, float(sum(b.page * ceil(b.layers / inputs.pp) for b in buckets)), inputs), shapes, inputs)
    buckets, page = _equal_pages(shapes, inputs)
    size = layers_per_group([bucket.layers for bucket in buckets], releases.SAME_SIZE.at(inputs.release))
    grouped = tuple(replace(b, groups=ceil(b.layers / size)) for b in buckets)
    return _checked(_layout(grouped, float(page * ceil(size / inputs.pp)), inputs), shapes, inputs)


def _checked(layout: CacheLayout, shapes: list[LayerGroup], inputs: MemoryInputs) -> CacheLayout:
    """The layout with what its release's start-up check asks for: up to 0.13 each layer's own pages, up to 0.16 the groups of
    the whole model, whatever the stage holds."""
    law = releases.CHECK.at(inputs.release)
    if law == "stage" or (law == "model" and inputs.pp == 1) or (law == "layers" and len(layout.buckets) == 1):
        return layout
    if law == "model":
        return replace(layout, admission_factor=sum(b.layers for b in layout.buckets) / sum(ceil(b.layers / inputs.pp) for b in layout.buckets))
    state = max((b.page for b in layout.buckets if b.is_state), default=0)
    block = layout.block_size if state else minimum_block(inputs)
    own = tuple(
        Bucket(s, ceil(s.layers / inputs.pp), block, state if s.kind in STATE_KINDS else block * token_bytes(s, inputs)) for s in shapes)
    return replace(layout, check=own)


def layers_per_group(counts: list[int], same_size: float) -> int:
    """Layers in one group: the smallest kind's count, or the largest when all are below ``same_size`` times the smallest."""
    return max(counts) if max(counts) < same_size * min(counts) else min(counts)


def _layout(buckets: tuple[Bucket, ...], per_block: float, inputs: MemoryInputs) -> CacheLayout:
    """A layout with what does not depend on the grouping filled in."""
    groups = sum(bucket.groups for bucket in buckets)
    if len({b.block for b in buckets}) == 1 and _is_uniform([b.shape for b in buckets]):
        # Layers of one type but different widths share block ids: one table serves all of them.
        buckets, groups = (replace(buckets[0], layers=sum(b.layers for b in buckets)),), 1
    return CacheLayout(
        buckets=buckets, bytes_per_block=per_block, inflight=inflight_tokens(inputs), mode=inputs.state_mode, dcp=inputs.dcp,
        old_token_line=groups > 1 and not releases.TOKENS_ARE_CONCURRENCY.at(inputs.release),
        null_blocks=int(releases.NULL_BLOCK_RESERVED.at(inputs.release)))


def _measured_layout(measured: MeasuredKV, inputs: MemoryInputs) -> CacheLayout:
    """Geometry of a family known only by measurement: as if it were one full-attention layer."""
    shape = LayerGroup("full", 1, kv_heads=1, head_dim_k=1)
    per_block = measured.bytes_per_token * measured.block
    bucket = Bucket(shape, 1, measured.block, ceil(per_block))
    return CacheLayout(
        buckets=(bucket,), bytes_per_block=per_block, inflight=inputs.batch, mode="none", dcp=inputs.dcp,
        fixed_bytes=measured.fixed_bytes, admission_factor=measured.admission_factor)


def _model_shapes(inputs: MemoryInputs) -> list[LayerGroup]:
    """Distinct shapes with their layer counts over the whole model."""
    counts: dict[LayerGroup, int] = {}
    for group in inputs.groups:
        shape = group
        if not inputs.hybrid_manager and group.kind in ("sliding", "chunked"):
            shape = replace(group, kind="full", window=0)
        key = replace(shape, layers=1)
        counts[key] = counts.get(key, 0) + group.layers
    shapes = [replace(shape, layers=count) for shape, count in counts.items()]
    return _with_boundary_layers(shapes, inputs)


def _with_boundary_layers(shapes: list[LayerGroup], inputs: MemoryInputs) -> list[LayerGroup]:
    """TurboQuant leaves the first two and last two attention layers of a model without states unquantized."""
    if not pages.is_turboquant(inputs.kv_dtype) or inputs.is_hybrid:
        return shapes
    largest = max(range(len(shapes)), key=lambda index: shapes[index].layers)
    shape = shapes[largest]
    skipped = min(4, shape.layers)
    kept = [replace(shape, layers=shape.layers - skipped)] if shape.layers > skipped else []
    rest = shapes[:largest] + shapes[largest + 1:]
    return [*kept, replace(shape, layers=skipped, kv_dtype="auto"), *rest]


def _family(shape: LayerGroup) -> tuple[str, int]:
    """Layers of one family can share one table: latents count as full attention, windows must be equal."""
    kind = "full" if shape.kind in FULL_KINDS else shape.kind
    return kind, shape.window


def _is_uniform(shapes: list[LayerGroup]) -> bool:
    """True when one table of blocks can serve all layers."""
    return len({_family(shape) for shape in shapes}) == 1


def _uniform_buckets(shapes: list[LayerGroup], inputs: MemoryInputs) -> tuple[Bucket, ...]:
    """One bucket for each shape, all with the same block."""
    if shapes[0].kind in STATE_KINDS:
        block = inputs.block_size or KERNEL_BLOCK
        return tuple(Bucket(s, s.layers, block, state_bytes(s, inputs), extra_states=extra_states(inputs, s.kind)) for s in shapes)
    block = minimum_block(inputs) * _quantized_scale(shapes, inputs)
    return tuple(Bucket(s, s.layers, block, block * token_bytes(s, inputs)) for s in shapes)


def _quantized_scale(shapes: list[LayerGroup], inputs: MemoryInputs) -> int:
    """How much longer blocks become when some layers are left unquantized: the block of one-byte layers must
    cover that of the others, whatever the packed dtype's real width."""
    packed = [s for s in shapes if s.kv_dtype is None]
    plain = [s for s in shapes if s.kv_dtype is not None]
    if not plain or not packed or inputs.kv_dtype == "auto":
        return 1
    one_byte = min(pages.token_bytes(s, "fp8", inputs.tp) for s in packed)
    return ceil(max(token_bytes(s, inputs) for s in plain) / one_byte)


def _equal_pages(shapes: list[LayerGroup], inputs: MemoryInputs) -> tuple[tuple[Bucket, ...], int]:
    """Buckets whose pages are all as large as the widest, and that page's bytes."""
    attention = [shape for shape in shapes if shape.kind not in STATE_KINDS]
    state = [shape for shape in shapes if shape.kind in STATE_KINDS]
    block = minimum_block(inputs)
    if state and attention:
        block = hybrid_block(attention, state, inputs)
    page = max([block * token_bytes(s, inputs) for s in attention] + [state_bytes(s, inputs) for s in state])
    buckets = []
    for shape in shapes:
        if shape.kind in STATE_KINDS:
            buckets.append(Bucket(shape, shape.layers, block, page, extra_states=extra_states(inputs, shape.kind)))
            continue
        buckets.append(Bucket(shape, shape.layers, block * _lengthened(block * token_bytes(shape, inputs), page, shape, inputs), page))
    return tuple(buckets), page


def _lengthened(own: int, page: int, shape: LayerGroup, inputs: MemoryInputs) -> int:
    """How many times the tokens a page of ``own`` bytes gets to fill ``page``: as often as it divides it. One that does not keeps
    its tokens and is padded, from 0.24 on; a patched 0.22 that was recorded filled it as far as whole tokens went."""
    divides = page % own == 0 or shape.kind in MLA_KINDS
    return page // own if divides or not releases.PAGES_ARE_PADDED.at(inputs.release) else 1
