"""What must hold for every model, GPU and setting."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.plan.memory import GIB, Interval
from compiler.resolve.memory import (
    CardMemory,
    LayerGroup,
    MeasuredKV,
    MemoryInputs,
    ModelShape,
    Speculation,
    StateDims,
    Weights,
    cache_layout,
    memory_plan,
)
from compiler.resolve.memory.layout import LONGEST
from compiler.resolve.memory.pages import KNOWN_DTYPES

HEADS = st.sampled_from([1, 2, 4, 8, 16])
DIMS = st.sampled_from([64, 128, 256, 512])
LAYERS = st.integers(1, 80)
FULL = st.builds(LayerGroup, st.just("full"), LAYERS, HEADS, DIMS)
SLIDING = st.builds(LayerGroup, st.sampled_from(["sliding", "chunked"]), LAYERS, HEADS, DIMS,
                    window=st.sampled_from([128, 1024, 8192]))
LATENT = st.builds(LayerGroup, st.sampled_from(["mla", "mla_ds"]), LAYERS, kv_lora_rank=st.just(512), rope_dim=st.just(64))
STATE = st.builds(LayerGroup, st.sampled_from(["gdn", "mamba2", "kda"]), LAYERS, state=st.builds(
    StateDims, st.sampled_from([16, 32, 48, 64]), st.sampled_from([64, 128]), st.just(128), st.sampled_from([0, 16]),
    groups=st.sampled_from([1, 8]), ssm_dtype=st.sampled_from(["float32", "float16"])))
GEOMETRY = st.one_of(
    st.tuples(FULL), st.tuples(LATENT), st.tuples(STATE), st.tuples(FULL, SLIDING), st.tuples(FULL, STATE),
    st.tuples(LATENT, STATE), st.tuples(FULL, SLIDING, STATE),
    st.builds(MeasuredKV, st.floats(500, 300_000), st.integers(0, 1 << 30), st.sampled_from([1, 16, 256])))


@st.composite
def all_inputs(draw: st.DrawFn) -> MemoryInputs:
    """Inputs over everything that a caller may give."""
    spec = draw(st.one_of(st.none(), st.builds(Speculation, st.just("mtp"), st.integers(1, 8))))
    return MemoryInputs(
        draw(st.sampled_from(["0.6.3", "0.11.0", "0.20.1", "0.23.0", "0.26.0", "0.27.1", "0.30.0"])),
        CardMemory(vram_mib=draw(st.integers(6_000, 300_000)), already_used_bytes=draw(st.integers(0, 4 * GIB))),
        draw(GEOMETRY), Weights(draw(st.integers(1, 200)) * GIB), draw(st.integers(1, 1_100_000)),
        shape=ModelShape(is_moe=draw(st.booleans()), is_multimodal=draw(st.booleans())),
        tp=draw(st.sampled_from([1, 2, 4, 8])), pp=draw(st.sampled_from([1, 2])),
        kv_dtype=draw(st.sampled_from(sorted(KNOWN_DTYPES))), prefix_caching=draw(st.sampled_from([None, True, False])),
        max_num_batched_tokens=draw(st.sampled_from([None, 512, 2048, 16_384])),
        max_num_seqs=draw(st.sampled_from([None, 1, 64, 1024])),
        gpu_memory_utilization=draw(st.one_of(st.none(), st.floats(0.05, 1.0))),
        kv_cache_memory_bytes=draw(st.sampled_from([None, None, 1, 15 * GIB])),
        enforce_eager=draw(st.booleans()), speculation=spec, hybrid_manager=draw(st.booleans()))


def ordered(interval: Interval) -> bool:
    """True when the three values are in order."""
    return interval.low <= interval.mid <= interval.high


@given(all_inputs())
@settings(max_examples=300, deadline=None)
def test_valid_inputs_never_raise_and_the_plan_is_consistent(inputs: MemoryInputs) -> None:
    plan = memory_plan(inputs)
    assert all(ordered(i) for i in (plan.kv_gib, plan.kv_tokens, plan.num_blocks, plan.concurrency,
                                    plan.outside_budget_gib))
    assert plan.verdict in ("fits", "tight", "refused") and bool(plan.reasons) == (plan.verdict != "fits")
    assert 0 <= plan.longest_context_safe <= plan.longest_context <= LONGEST
    assert abs(sum(part.gib for part in plan.parts) - plan.total_gib) < 1e-6
    assert (plan.shortfall_gib > 0) == (plan.needed_gib > plan.kv_gib.mid) or inputs.num_gpu_blocks_override
    assert plan.to_json()["verdict"] == plan.verdict


@given(all_inputs())
@settings(max_examples=200, deadline=None)
def test_longest_window_is_admitted_and_one_block_more_is_not(inputs: MemoryInputs) -> None:
    layout, kv = cache_layout(inputs), 12.0 * GIB
    longest = layout.longest(kv)
    if longest:
        assert layout.admission_bytes(longest) <= kv
    if longest < LONGEST // 2:
        step = max(bucket.block for bucket in layout.buckets)
        assert layout.admission_bytes(longest + step) > kv


@given(all_inputs(), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
@settings(max_examples=150, deadline=None)
def test_more_utilization_is_never_less_cache(inputs: MemoryInputs, one: float, other: float) -> None:
    free = replace(inputs, kv_cache_memory_bytes=None)
    less, more = (memory_plan(replace(free, gpu_memory_utilization=u)) for u in sorted((one, other)))
    assert less.kv_gib.mid <= more.kv_gib.mid
    assert less.kv_tokens.mid <= more.kv_tokens.mid and less.longest_context <= more.longest_context


@given(all_inputs(), st.integers(1, 64), st.integers(1, 64))
@settings(max_examples=150, deadline=None)
def test_more_cache_bytes_are_never_fewer_tokens(inputs: MemoryInputs, one: int, other: int) -> None:
    less, more = (memory_plan(replace(inputs, kv_cache_memory_bytes=gib * GIB)) for gib in sorted((one, other)))
    assert less.kv_tokens.mid <= more.kv_tokens.mid
    assert less.concurrency.mid <= more.concurrency.mid and less.longest_context <= more.longest_context


@given(all_inputs())
@settings(max_examples=150, deadline=None)
def test_more_ranks_never_make_a_token_dearer(inputs: MemoryInputs) -> None:
    plain = replace(inputs, kv_dtype="auto")
    if plain.is_hybrid:
        return  # blocks are rounded to the state, so the padding may differ between rank counts
    one, two = cache_layout(replace(plain, tp=1)), cache_layout(replace(plain, tp=2))
    assert two.bytes_per_token <= one.bytes_per_token


@given(all_inputs())
@settings(max_examples=150, deadline=None)
def test_tokens_are_concurrency_times_window(inputs: MemoryInputs) -> None:
    recent = replace(inputs, engine_release="0.27.1")
    layout, window = cache_layout(recent), recent.max_model_len
    blocks = layout.blocks(20.0 * GIB)
    assert abs(layout.tokens(blocks, window) - layout.concurrency(blocks, window) * window) <= 1.001


@given(all_inputs(), st.integers(1, 1_000_000), st.integers(1, 1_000_000))
@settings(max_examples=150, deadline=None)
def test_a_longer_window_never_needs_less(inputs: MemoryInputs, one: int, other: int) -> None:
    layout = cache_layout(inputs)
    less, more = sorted((one, other))
    assert layout.needed_bytes(less) <= layout.needed_bytes(more)
