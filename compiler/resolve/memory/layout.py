"""The pool's geometry, once the groups are known, and what follows from it in closed form.

Source: vLLM 0.27.1, ``v1/core/kv_cache_utils.py`` (``get_kv_cache_capacity``, ``_estimate_max_model_len_from_groups``). All bytes are
those of one rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, fsum

from compiler.resolve.memory import states
from compiler.resolve.memory.inputs import STATE_KINDS, LayerGroup, MambaMode

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
    """The pool's geometry. ``bytes_per_block`` covers one block id in every layer that shares it.

    Where ``request_page`` is set, a request's blocks are its bytes, each group by its own page, over this page. Where ``check_page`` is
    set, the start-up check counts that many bytes for each block of a request; where ``check`` is, it counts each layer by itself.
    """

    buckets: tuple[Bucket, ...]
    bytes_per_block: float
    inflight: int
    mode: MambaMode
    dcp: int = 1
    fixed_bytes: int = 0
    admission_factor: float = 1.0
    old_token_line: bool = False
    null_blocks: int = 0
    request_page: int = 0
    check_page: int = 0
    check: tuple[Bucket, ...] = ()

    @property
    def block_size(self) -> int:
        """Tokens of the smallest attention block, that of the compressed latents where windows have their own, or of the state block
        when there is no attention."""
        attention = [bucket.block for bucket in self.buckets if not bucket.is_state and bucket.shape.kind != "ring"]
        keys = [bucket.block for bucket in self.buckets if bucket.shape.kind == "indexer"]
        return min(keys or attention or [bucket.block for bucket in self.buckets])

    @property
    def bytes_per_token(self) -> float:
        """Bytes that one more token costs where the window is long: only what grows without bound counts."""
        growing = [b for b in self.buckets if b.shape.kind not in ("sliding", "chunked", "ring")
                   and (not b.is_state or self.mode == "all")]
        return fsum(b.groups * self.bytes_per_block / b.block for b in growing) / self.dcp

    def per_request(self, length: int) -> int:
        """Blocks that one request of ``length`` tokens holds, over all groups."""
        if self.request_page:
            return ceil(sum(b.groups * self._blocks(b, length) * b.page for b in self.buckets) / self.request_page)
        return self._group_blocks(length)

    def request_bytes(self, length: int) -> float:
        """Bytes that one request of ``length`` tokens holds."""
        return self.per_request(length) * self.bytes_per_block + self.fixed_bytes

    def needed_bytes(self, length: int) -> float:
        """Bytes of cache that the engine says a window of ``length`` tokens needs."""
        if self.check:
            return float(sum(b.layers * self._blocks(b, length) * b.page for b in self.check))
        if self.check_page:
            return float(self.check_page * self._group_blocks(length))
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
            # Without cached states their block is the window.
            least = min(self.block_size, length) if self.mode == "none" and any(b.is_state for b in self.buckets) else self.block_size
            return blocks // groups * least * self.dcp
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

    def _group_blocks(self, length: int) -> int:
        """Blocks of one request, each group's own counted."""
        return sum(bucket.groups * self._blocks(bucket, length) for bucket in self.buckets)

    def _blocks(self, bucket: Bucket, length: int) -> int:
        """Blocks of one group of ``bucket`` for one request."""
        kind, window = bucket.shape.kind, bucket.shape.window
        if bucket.is_state:
            return states.state_blocks(self.mode, length, bucket.block, bucket.extra_states)
        if kind == "ring":
            return 1
        if kind == "sliding":
            # One block more, because the window may begin inside a block.
            return ceil(min(window - 1 + self.inflight, length) / bucket.block) + 1
        if kind == "chunked":
            return ceil(min(window + self.inflight, length) / bucket.block)
        return ceil(ceil(length / self.dcp) / bucket.block)
