"""Caches of several page sizes in one slab: DeepSeek-V4 and V4.1, and hybrids whose indexer keeps one key for several tokens.

A layer keeps several caches here: a window, compressed latents, an indexer's keys, and what is gathered for the next of them. All that
grow alike share one table of blocks; the others are cut into groups, each with a table of its own. Groups overlap in a block, so
since 0.27 a block is as wide as the widest group. Source: vLLM 0.22.0 to 0.33.0, ``v1/core/kv_cache_utils.py``
(``_get_kv_cache_groups_uniform_groups``, ``_get_packed_kv_cache_groups``), ``models/deepseek_v4`` (``compressor.py``,
``attention.py``), ``models/deepseek_v41``, ``models/qwen4_exp`` and ``models/glm5next``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil

from compiler.resolve.memory import pages, releases
from compiler.resolve.memory.blocks import extra_states, hybrid_block, inflight_tokens, minimum_block, state_bytes, token_bytes
from compiler.resolve.memory.inputs import STATE_KINDS, LayerGroup, MemoryInputs
from compiler.resolve.memory.layout import Bucket, CacheLayout

WINDOW_BLOCK = 64
V4_BLOCK, V41_BLOCK = 256, 64
STATE_BLOCKS = {4: 4, 128: 8}  # tokens of a block of the compressor's states
RECORD, RECORD_GRID = 584, 576  # fp8_ds_mla: 448 in 8 bits, 128 bytes of rotary keys, 8 of scales; pages are rounded up
PLAIN_GRID = 512


@dataclass(frozen=True, slots=True)
class Cache:
    """``layers`` caches of one kind, each with pages of ``page`` bytes for ``block`` tokens."""

    shape: LayerGroup
    layers: int
    block: int
    page: int
    extra_states: int = 0

    @property
    def table(self) -> tuple[str, int, int]:
        """Caches of one table grow alike."""
        kind = self.shape.kind
        if kind in STATE_KINDS:
            return kind, self.page, self.extra_states
        if kind == "ring":
            return "ring", 0, 0
        return ("sliding", self.shape.window, self.block) if kind == "sliding" else ("full", 0, 0)


def is_packed(inputs: MemoryInputs) -> bool:
    """True for layers whose caches have pages of several sizes: compressed ones, and indexers of several tokens a key."""
    return any(group.kind == "compressed" or (group.kind == "indexer" and group.ratio > 1) for group in inputs.groups)


def packed_layout(inputs: MemoryInputs) -> CacheLayout:
    """The pool's geometry of such a model; raises ``ValueError`` for a dtype not known."""
    tables: dict[tuple[str, int, int], list[Cache]] = {}
    for cache in _caches(inputs):
        tables.setdefault(cache.table, []).append(cache)
    law = releases.PACKED_BLOCK.at(inputs.release)
    full = tables.get(("full", 0, 0), [])
    sizes = sorted({cache.page for cache in full})
    if law != "widest":  # Pages are padded to the next larger one of the caches that grow.
        tables = {key: [_padded(cache, sizes) for cache in caches] for key, caches in tables.items()}
    groups = [group.on_stage(inputs.pp) for caches in tables.values() for group in _groups(caches, list(tables.values()))]
    tuples = max(max(Counter(dict(group.pages)).values()) for group in groups)
    whole = tuples * sum(sizes)
    if law == "tuples":
        per_block = whole
    elif law == "slots":
        pages_used = {page for group in groups for page, _ in group.pages}
        per_block = sum(page * max(dict(group.pages).get(page, 0) for group in groups) for page in pages_used)
    else:
        per_block = max(group.bytes for group in groups)
    by_bytes = law != "widest"
    return CacheLayout(
        buckets=tuple(group.bucket for group in groups), bytes_per_block=float(per_block), inflight=inflight_tokens(inputs),
        mode=inputs.state_mode, dcp=inputs.dcp, null_blocks=int(releases.NULL_BLOCK_RESERVED.at(inputs.release)),
        request_page=sum(c.page * ceil(c.layers / inputs.pp) for c in full) if by_bytes else 0,
        check_page=whole if releases.PACKED_CHECK.at(inputs.release) == "tuples" else 0)


@dataclass(frozen=True, slots=True)
class _Group:
    """Caches of one table of blocks: (page, number) of each size."""

    first: Cache
    pages: tuple[tuple[int, int], ...]

    def on_stage(self, stages: int) -> _Group:
        """The share of the fullest of ``stages`` pipeline stages: groups are cut out of the whole model."""
        return _Group(self.first, tuple((page, ceil(count / stages)) for page, count in self.pages))

    @property
    def bytes(self) -> int:
        """Bytes of one block in all of them."""
        return sum(page * count for page, count in self.pages)

    @property
    def bucket(self) -> Bucket:
        """As the layout counts it."""
        layers = sum(count for _, count in self.pages)
        return Bucket(self.first.shape, layers, self.first.block, self.bytes, extra_states=self.first.extra_states)


def _groups(caches: list[Cache], tables: list[list[Cache]]) -> list[_Group]:
    """The groups that one table's caches are cut into."""
    counts = _by_page(caches)
    number = _number_of_groups(caches, tables)
    if number == 1:
        return [_Group(caches[0], tuple(counts.items()))]
    return [_Group(caches[0], tuple((page, len(range(index, count, number))) for page, count in counts.items())) for index in range(number)]


def _number_of_groups(caches: list[Cache], tables: list[list[Cache]]) -> int:
    """How many groups hold one table's caches. Tables whose page sizes come in equal numbers are patterns, cut so that all cover the
    same number of repeats; states and rings fill a block that the others need anyway."""
    repeats = _repeats(tables)
    counts = _by_page(caches)
    number = ceil(max(counts.values()) / repeats) if repeats and _is_pattern(caches) else 1
    if not _is_state(caches, repeats):
        return number
    anchor = max(_narrowest(other, repeats) for other in tables)
    return max(number, ceil(sum(counts.values()) / max(1, anchor // caches[0].page)))


def _narrowest(caches: list[Cache], repeats: int) -> int:
    """Bytes that a block must have for one table, cut as far as it can be."""
    counts = _by_page(caches)
    if _is_state(caches, repeats):
        return max(counts)
    number = ceil(max(counts.values()) / repeats) if repeats and _is_pattern(caches) else 1
    return sum(page * ceil(count / number) for page, count in counts.items())


def _is_state(caches: list[Cache], repeats: int) -> bool:
    """True where one table's caches can be cut down to one a group."""
    kind = caches[0].shape.kind
    return kind in STATE_KINDS or kind == "ring" or (kind == "sliding" and not repeats)


def _is_pattern(caches: list[Cache]) -> bool:
    return len(set(_by_page(caches).values())) == 1


def _by_page(caches: list[Cache]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for cache in caches:
        counts[cache.page] += cache.layers
    return counts


def _repeats(tables: list[list[Cache]]) -> int:
    """Repeats of a pattern in one group: the number from the widest mixed pattern on that leaves the least padding; 0 without one."""
    patterns = [max(_by_page(caches).values()) for caches in tables if _is_pattern(caches)]
    least = max((max(_by_page(caches).values()) for caches in tables if _is_pattern(caches) and len(_by_page(caches)) > 1), default=0)
    if not least:
        return 0
    padding = {size: sum(-count % size for count in patterns) for size in range(least, max(patterns) + 1)}
    return max(size for size in padding if padding[size] == min(padding.values()))


def _padded(cache: Cache, sizes: list[int]) -> Cache:
    page = next((size for size in sizes if size >= cache.page), cache.page)
    return Cache(cache.shape, cache.layers, cache.block, page, cache.extra_states)


def _caches(inputs: MemoryInputs) -> list[Cache]:
    """Every cache of the model and its draft."""
    attention = [group for group in inputs.groups if group.kind not in STATE_KINDS]
    states = [group for group in inputs.groups if group.kind in STATE_KINDS]
    block = inputs.block_size or (V41_BLOCK if any(group.ratio in (1, 2) for group in attention) else V4_BLOCK)
    if not any(group.kind == "compressed" for group in attention):
        targets = [group for group in attention if group.kind != "indexer"]
        block = hybrid_block(targets, states, inputs) if states else minimum_block(inputs)
    found: list[Cache] = []
    for group in attention:
        if group.kind == "compressed":
            found += _compressed(group, block, inputs)
        elif group.kind == "indexer":
            found += _indexer(group, block, inputs)
        else:
            found.append(Cache(group, group.layers, block, block * token_bytes(group, inputs)))
    page = max((cache.page for cache in found if cache.shape.kind not in ("indexer", "ring")), default=0)
    for group in states:
        size = max(state_bytes(group, inputs), page)
        found.append(Cache(group, group.layers, block, size, extra_states(inputs, group.kind)))
    return found


def _compressed(group: LayerGroup, block: int, inputs: MemoryInputs) -> list[Cache]:
    """The caches of DeepSeek-V4's layers: a window in all, and by ratio latents, an indexer's keys and states of the compressor."""
    layers = group.layers
    width, grid = (RECORD, RECORD_GRID) if _is_record(inputs) else (2 * group.head_dim_k, PLAIN_GRID)
    found = [_sliding(group, layers, WINDOW_BLOCK, group.window, _rounded(WINDOW_BLOCK * width, grid))]
    if not group.ratio:
        return found
    full = LayerGroup("indexer", layers, head_dim_k=group.head_dim_k)
    found.append(Cache(full, layers, block, _rounded(max(1, block // group.ratio) * width, grid)))
    if group.index_dim:
        key = pages.index_bytes(group.index_dim, None)
        found.append(Cache(full, layers, block, _rounded(max(1, block // group.ratio) * key, grid)))
    if group.ratio == 2:  # V4.1: keys and scores of the open group, in 32 bits
        capacity = max(8, 1 << (inputs.spec_tokens + 1).bit_length())
        found.append(_ring(layers, capacity, capacity * 2 * group.head_dim_k * 4))
    if group.ratio in STATE_BLOCKS:
        overlap = 2 if group.ratio == 4 else 1
        tokens = STATE_BLOCKS[group.ratio]
        for wide in [group.head_dim_k, group.index_dim] if group.index_dim else [group.head_dim_k]:
            page = _rounded(tokens * 2 * overlap * wide * 4, grid)
            found.append(_sliding(group, layers, tokens, overlap * group.ratio, page))
    return found


def _indexer(group: LayerGroup, block: int, inputs: MemoryInputs) -> list[Cache]:
    """Keys of an indexer, one for ``ratio`` tokens, and the ring of the tokens that still wait for theirs."""
    ratio, layers = max(1, group.ratio), group.layers
    keys = Cache(group, layers, block, block // ratio * pages.index_bytes(group.head_dim_k, group.kv_dtype))
    if ratio == 1:
        return [keys]
    span = ratio + inputs.spec_tokens
    if group.kv_dtype in pages.SIXTEEN_BIT:  # QSA: raw keys
        capacity, row = ceil(span / ratio) * ratio, 2 * group.head_dim_k
    else:  # pooled keys: raw ones and their scores
        capacity, row = ratio * (1 << (ceil(span / ratio) - 1).bit_length()), 4 * group.head_dim_k
    return [keys, _ring(layers, capacity, capacity * row)]


def _is_record(inputs: MemoryInputs) -> bool:
    return inputs.kv_dtype.lower() not in pages.SIXTEEN_BIT


def _sliding(group: LayerGroup, layers: int, block: int, window: int, page: int) -> Cache:
    return Cache(LayerGroup("sliding", layers, kv_heads=1, head_dim_k=group.head_dim_k, window=window), layers, block, page)


def _ring(layers: int, capacity: int, page: int) -> Cache:
    return Cache(LayerGroup("ring", layers, head_dim_k=1), layers, capacity, page)


def _rounded(size: int, grid: int) -> int:
    return ceil(size / grid) * grid
