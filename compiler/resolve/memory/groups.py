"""How layers become groups that share one pool of equal blocks, and what follows from it in closed form.

Source: vLLM 0.27.1, ``v1/core/kv_cache_utils.py`` (``_get_kv_cache_groups_uniform_page_size``,
``unify_kv_cache_spec_page_size``, ``get_kv_cache_capacity``) and ``platforms/interface.py``
(``_align_hybrid_block_size``, ``_align_heterogeneous_kv_block_size``). All bytes are those of one rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor, fsum, lcm

from compiler.resolve.memory import pages, releases, states
from compiler.resolve.memory.inputs import MLA_KINDS, STATE_KINDS, LayerGroup, MambaMode, MeasuredKV, MemoryInputs

KERNEL_BLOCK = 16
MLA_BLOCK = 64
GDN_CHECKPOINT_GRID = 64  # FlashInfer's prefill exports states at multiples of it
FLASHINFER_GDN_FAMILIES = (10, 12)  # besides 9.0; there with 128 wide keys and CUDA 13
LONGEST = 1 << 27  # nothing asks for more; bounds the search where the cache does not grow with length


@dataclass(frozen=True, slots=True)
class Bucket:
    """Layers of one shape: ``groups`` groups of them, each a table of blocks of ``block`` tokens; ``extra_states`` is what
    drafts and checkpoints add to the states of a request."""

    shape: LayerGroup
    layers: int
    block: int
    page: int
    groups: int = 1
    extra_states: int = 0

    @property
    def is_state(self) -> bool:
        """True for layers that keep a state."""
        return self.shape.kind in STATE_KINDS


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The pool's geometry. ``bytes_per_block`` covers one block id in every layer that shares it."""

    buckets: tuple[Bucket, ...]
    bytes_per_block: float
    inflight: int
    mode: MambaMode
    dcp: int = 1
    fixed_bytes: int = 0
    admission_factor: float = 1.0
    old_token_line: bool = False
    null_blocks: int = 0

    @property
    def block_size(self) -> int:
        """Tokens of the smallest attention block, or of the state block when there is no attention."""
        attention = [bucket.block for bucket in self.buckets if not bucket.is_state]
        return min(attention or [bucket.block for bucket in self.buckets])

    @property
    def bytes_per_token(self) -> float:
        """Bytes that one more token costs where the window is long: only what grows without bound counts."""
        growing = [b for b in self.buckets if b.shape.kind not in ("sliding", "chunked")
                   and (not b.is_state or self.mode == "all")]
        return fsum(b.groups * self.bytes_per_block / b.block for b in growing) / self.dcp

    def per_request(self, length: int) -> int:
        """Blocks that one request of ``length`` tokens holds, over all groups."""
        return sum(bucket.groups * self._blocks(bucket, length) for bucket in self.buckets)

    def request_bytes(self, length: int) -> float:
        """Bytes that one request of ``length`` tokens holds."""
        return self.per_request(length) * self.bytes_per_block + self.fixed_bytes

    def needed_bytes(self, length: int) -> float:
        """Bytes of cache that the engine says a window of ``length`` tokens needs."""
        return self.request_bytes(length) * self.admission_factor

    def admission_bytes(self, length: int) -> float:
        """Bytes that the pool must have before the start-up check admits a window of ``length`` tokens."""
        return self.needed_bytes(length) + self.null_blocks * self.bytes_per_block

    def blocks(self, kv_bytes: float) -> int:
        """Whole blocks in ``kv_bytes``; none when the budget is spent."""
        return max(0, floor(kv_bytes / self.bytes_per_block))

    def concurrency(self, blocks: int, length: int) -> float:
        """Requests of ``length`` tokens that ``blocks`` blocks hold."""
        if not self.fixed_bytes:
            return blocks / self.per_request(length)
        return blocks * self.bytes_per_block / self.request_bytes(length)

    def tokens(self, blocks: int, length: int) -> int:
        """The token figure that the log prints: concurrency times window; up to 0.20 blocks over groups."""
        groups = sum(bucket.groups for bucket in self.buckets)
        if self.old_token_line and not self.fixed_bytes:
            return blocks // groups * self.block_size * self.dcp
        if self.fixed_bytes:
            return int(self.concurrency(blocks, length) * length)
        return blocks * length // self.per_request(length)

    def longest(self, kv_bytes: float) -> int:
        """The largest window that the start-up check admits with ``kv_bytes``, 0 when none is, by bisection."""
        if self.admission_bytes(1) > kv_bytes:
            return 0
        low, high = 1, 2
        while high < LONGEST and self.admission_bytes(high) <= kv_bytes:
            low, high = high, high * 2
        while low + 1 < high:
            middle = (low + high) // 2
            if self.admission_bytes(middle) <= kv_bytes:
                low = middle
            else:
                high = middle
        return low

    def _blocks(self, bucket: Bucket, length: int) -> int:
        """Blocks of one group of ``bucket`` for one request."""
        kind, window = bucket.shape.kind, bucket.shape.window
        if bucket.is_state:
            return states.state_blocks(self.mode, length, bucket.block, bucket.extra_states)
        if kind == "sliding":
            # One block more, because the window may begin inside a block.
            return ceil(min(window - 1 + self.inflight, length) / bucket.block) + 1
        if kind == "chunked":
            return ceil(min(window + self.inflight, length) / bucket.block)
        return ceil(ceil(length / self.dcp) / bucket.block)


def cache_layout(inputs: MemoryInputs) -> CacheLayout:
    """The pool's geometry for ``inputs``; raises ``ValueError`` for a cache or state dtype not known.

    The engine groups the layers of the whole model and gives each pipeline stage its share of every group.
    """
    if isinstance(inputs.geometry, MeasuredKV):
        return _measured_layout(inputs.geometry, inputs)
    shapes = _model_shapes(inputs)
    if _is_uniform(shapes):
        buckets = _uniform_buckets(shapes, inputs)
        return _layout(buckets, float(sum(b.page * ceil(b.layers / inputs.pp) for b in buckets)), inputs)
    buckets, page = _equal_pages(shapes, inputs)
    size = layers_per_group([bucket.layers for bucket in buckets], releases.SAME_SIZE.at(inputs.release))
    grouped = tuple(replace(b, groups=ceil(b.layers / size)) for b in buckets)
    return _layout(grouped, float(page * ceil(size / inputs.pp)), inputs)


def layers_per_group(counts: list[int], same_size: float) -> int:
    """Layers in one group: the smallest kind's count, or the largest when all are below ``same_size`` times the smallest."""
    return max(counts) if max(counts) < same_size * min(counts) else min(counts)


def inflight_tokens(inputs: MemoryInputs) -> int:
    """Tokens that may be in flight beside a sliding window: one batch before 0.26, then one for each
    batch that may be scheduled at once (``config/vllm.py: max_concurrent_batches``)."""
    if not releases.BATCHES_IN_FLIGHT.at(inputs.release):
        return inputs.batch
    if not inputs.async_scheduling:
        return inputs.batch * inputs.pp
    if inputs.pp == 1:
        return inputs.batch * 2
    return inputs.batch * (inputs.pp + 1 if inputs.model_runner == "V2" else inputs.pp)


def extra_states(inputs: MemoryInputs, kind: str) -> int:
    """State blocks that drafts and, in mode ``align``, a checkpoint inside a prefill add to each request."""
    mode, release = inputs.state_mode, inputs.release
    law = releases.DRAFTS_ADD_STATES_IN_ALL if mode == "all" else releases.DRAFTS_ADD_STATES
    drafts = inputs.spec_tokens if law.at(release) else 0
    if mode != "align":
        return drafts
    if kind == "mamba2":
        return drafts + releases.MAMBA2_CHECKPOINT.at(release)
    return drafts + (releases.GDN_CHECKPOINT.at(release) if kind == "gdn" and exports_gdn_checkpoints(inputs) else 0)


def exports_gdn_checkpoints(inputs: MemoryInputs) -> bool:
    """True where the engine's own choice for the prefill of GDN layers is FlashInfer, which keeps states inside a prefill
    (``qwen_gdn_linear_attn.py: _resolve_gdn_prefill_backend``): compute capability 9.0, 10.x and 12.x."""
    capability = inputs.card.capability
    widths = {group.state.k_dim for group in inputs.groups if group.kind == "gdn" and group.state is not None}
    if not releases.GDN_CHECKPOINT.at(inputs.release) or inputs.state_mode != "align" or capability is None or not widths:
        return False
    return capability == (9, 0) or (capability[0] in FLASHINFER_GDN_FAMILIES and widths == {128})


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
    kind = "full" if shape.kind in MLA_KINDS else shape.kind
    return kind, shape.window


def _is_uniform(shapes: list[LayerGroup]) -> bool:
    """True when one table of blocks can serve all layers."""
    return len({_family(shape) for shape in shapes}) == 1


def _minimum_block(inputs: MemoryInputs) -> int:
    """The configured block, or the kernel's own."""
    usual = MLA_BLOCK if inputs.is_mla else KERNEL_BLOCK
    return inputs.block_size or usual


def _token_bytes(shape: LayerGroup, inputs: MemoryInputs) -> int:
    """Bytes of one token in one layer of ``shape``."""
    return pages.token_bytes(shape, inputs.kv_dtype, inputs.tp, inputs.shape.dtype_bytes)


def _state_bytes(shape: LayerGroup, inputs: MemoryInputs) -> int:
    """Bytes of one request's state in one layer of ``shape``."""
    drafts = inputs.spec_tokens if shape.kind != "kda" or releases.KDA_KEEPS_DRAFTS.at(inputs.release) else 0
    return states.state_bytes(shape, inputs.tp, drafts, inputs.mamba_cache_dtype)


def _drafted(inputs: MemoryInputs) -> int:
    """Groups of layers that a draft brings; they stand last."""
    return len(inputs.speculation.groups) if inputs.speculation else 0


def _uniform_buckets(shapes: list[LayerGroup], inputs: MemoryInputs) -> tuple[Bucket, ...]:
    """One bucket for each shape, all with the same block."""
    if shapes[0].kind in STATE_KINDS:
        block = inputs.block_size or KERNEL_BLOCK
        return tuple(Bucket(s, s.layers, block, _state_bytes(s, inputs), extra_states=extra_states(inputs, s.kind)) for s in shapes)
    block = _minimum_block(inputs) * _quantized_scale(shapes, inputs)
    return tuple(Bucket(s, s.layers, block, block * _token_bytes(s, inputs)) for s in shapes)


def _quantized_scale(shapes: list[LayerGroup], inputs: MemoryInputs) -> int:
    """How much longer blocks become when some layers are left unquantized: the block of one-byte layers must
    cover that of the others, whatever the packed dtype's real width."""
    packed = [s for s in shapes if s.kv_dtype is None]
    plain = [s for s in shapes if s.kv_dtype is not None]
    if not plain or not packed or inputs.kv_dtype == "auto":
        return 1
    one_byte = min(pages.token_bytes(s, "fp8", inputs.tp) for s in packed)
    return ceil(max(_token_bytes(s, inputs) for s in plain) / one_byte)


def _equal_pages(shapes: list[LayerGroup], inputs: MemoryInputs) -> tuple[tuple[Bucket, ...], int]:
    """Buckets whose pages are all as large as the widest, and that page's bytes."""
    attention = [shape for shape in shapes if shape.kind not in STATE_KINDS]
    state = [shape for shape in shapes if shape.kind in STATE_KINDS]
    block = _minimum_block(inputs)
    if state and attention:
        block = _hybrid_block(attention, state, inputs)
    page = max([block * _token_bytes(s, inputs) for s in attention] + [_state_bytes(s, inputs) for s in state])
    buckets = []
    for shape in shapes:
        if shape.kind in STATE_KINDS:
            buckets.append(Bucket(shape, shape.layers, block, page, extra_states=extra_states(inputs, shape.kind)))
            continue
        buckets.append(Bucket(shape, shape.layers, block * _lengthened(block * _token_bytes(shape, inputs), page, shape, inputs), page))
    return tuple(buckets), page


def _lengthened(own: int, page: int, shape: LayerGroup, inputs: MemoryInputs) -> int:
    """How many times the tokens a page of ``own`` bytes gets to fill ``page``: as often as it divides it. One that does not keeps
    its tokens and is padded, from 0.24 on; a patched 0.22 that was recorded filled it as far as whole tokens went."""
    divides = page % own == 0 or shape.kind in MLA_KINDS
    return page // own if divides or not releases.PAGES_ARE_PADDED.at(inputs.release) else 1


def _hybrid_block(attention: list[LayerGroup], state: list[LayerGroup], inputs: MemoryInputs) -> int:
    """The attention block whose page covers the largest state."""
    minimum = inputs.block_size or KERNEL_BLOCK
    if inputs.is_mla:  # 0.26.0 on an H200 took 1,888 tokens, 118 times 16
        minimum = max(minimum, releases.HYBRID_LATENT_BLOCK.at(inputs.release))
    if exports_gdn_checkpoints(inputs):
        minimum = lcm(minimum, GDN_CHECKPOINT_GRID)
    chunk = inputs.mamba_block_size or max((s.state.chunk for s in state if s.state is not None), default=1)
    largest = max(_state_bytes(shape, inputs) for shape in state)
    # The platform aligns to the target's layers; a draft's come later and only lengthen or pad.
    own = {replace(group, layers=1) for group in inputs.groups[: len(inputs.groups) - _drafted(inputs)]}
    widest = max(_token_bytes(shape, inputs) for shape in attention if replace(shape, layers=1) in own)
    return states.hybrid_block(largest, widest, minimum, inputs.state_mode, chunk)
