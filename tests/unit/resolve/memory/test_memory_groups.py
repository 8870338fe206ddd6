"""Groups, blocks and windows: the worked examples of the closed form, each against a printed number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.plan.memory import GIB
from compiler.resolve.memory import CardMemory, LayerGroup, MeasuredKV, MemoryInputs, Speculation, StateDims, Weights, cache_layout
from compiler.resolve.memory.blocks import inflight_tokens
from compiler.resolve.memory.groups import layers_per_group

GEMMA = (LayerGroup("full", 10, 4, 512), LayerGroup("sliding", 50, 16, 256, window=1024))
GDN_27B = (LayerGroup("full", 16, 4, 256), LayerGroup("gdn", 48, state=StateDims(48, 128, 128, 16)))
DENSE = (LayerGroup("full", 36, 8, 128),)


def make(geometry: tuple[LayerGroup, ...] | MeasuredKV, release: str = "0.27.1", **more: Any) -> MemoryInputs:
    """Inputs on an H200 with a window of 262,144 unless told otherwise."""
    window = more.pop("max_model_len", 262_144)
    return MemoryInputs(release, CardMemory(total_bytes=150_109_880_320), geometry, Weights(), window, **more)


def test_one_kind_is_one_group() -> None:
    layout = cache_layout(make(DENSE))
    assert (layout.block_size, layout.bytes_per_block, layout.bytes_per_token) == (16, 36 * 65_536, 36 * 4096)
    assert layout.blocks(117_083_590_144) == 49_626


def test_tensor_parallelism_halves_a_token_until_heads_run_out() -> None:
    per_token = [cache_layout(make((LayerGroup("full", 80, 8, 128),), tp=tp)).bytes_per_token for tp in (1, 4, 8, 16)]
    assert per_token == [327_680, 81_920, 40_960, 40_960]


def test_window_layers_count_batches_in_flight() -> None:
    new = cache_layout(make(GEMMA, "0.26.0", max_num_batched_tokens=32_768))
    old = cache_layout(make(GEMMA, "0.25.1", max_num_batched_tokens=32_768))
    assert old.per_request(262_144) == 8192 + 5 * 2113
    assert new.per_request(262_144) == 8192 + 5 * 4161
    assert round(new.needed_bytes(262_144) / GIB, 2) == 70.79
    assert new.longest(49.0 * GIB) == 58_368


@pytest.mark.parametrize(("more", "factor"), [
    ({}, 2), ({"async_scheduling": False}, 1), ({"pp": 3}, 3), ({"pp": 3, "runner": "V2"}, 4),
    ({"pp": 3, "async_scheduling": False, "runner": "V2"}, 3)])
def test_batches_in_flight(more: dict[str, Any], factor: int) -> None:
    inputs = make(GEMMA, max_num_batched_tokens=1000, **{"runner": "V1", **more})
    assert inflight_tokens(inputs) == 1000 * factor


def test_without_hybrid_manager_window_layers_cost_as_full_ones() -> None:
    on, off = cache_layout(make(GEMMA)), cache_layout(make(GEMMA, hybrid_manager=False))
    assert off.bytes_per_token == 10 * 8192 + 50 * 16_384
    assert off.bytes_per_token > 10 * on.bytes_per_token


def test_chunked_layers_hold_chunk_and_batch() -> None:
    layout = cache_layout(make((LayerGroup("full", 12, 8, 128), LayerGroup("chunked", 36, 8, 128, window=8192)),
                               "0.25.0", max_num_batched_tokens=8192))
    assert layout.per_request(262_144) == 16_384 + 3 * 1024


def test_states_share_pages_with_attention() -> None:
    layout = cache_layout(make(GDN_27B, tp=2))
    assert layout.block_size == 784
    assert layout.blocks(3.86 * GIB) == 161
    assert layout.longest(3.86 * GIB) == (161 - 3) * 784


def test_draft_layers_join_the_attention_bucket() -> None:
    draft = Speculation("mtp", 2, (LayerGroup("full", 1, 4, 256),))
    layout = cache_layout(make(GDN_27B, kv_dtype="fp8", mamba_cache_mode="align", speculation=draft))
    assert layout.block_size == 1600
    assert [(b.layers, b.groups) for b in layout.buckets] == [(17, 1), (48, 3)]
    assert layout.per_request(262_144) == 164 + 3 * 4
    assert layout.tokens(936, 262_144) == 1_394_129


def test_turboquant_hybrid_skips_no_layer() -> None:
    layout = cache_layout(make(GDN_27B, kv_dtype="turboquant_3bit_nc", mamba_cache_mode="align", tp=2))
    assert layout.block_size == 4064
    assert layout.tokens(468, 262_144) == 1_727_935


def test_dense_turboquant_leaves_four_layers_unquantized() -> None:
    layout = cache_layout(make(DENSE, kv_dtype="turboquant_k3v4_nc"))
    assert layout.block_size == 32
    assert layout.bytes_per_block == 4 * 131_072 + 32 * 30_208


def test_latent_blocks_and_decode_context_parallelism() -> None:
    latent = (LayerGroup("mla", 61, kv_lora_rank=512, rope_dim=64),)
    one, eight = cache_layout(make(latent, tp=8)), cache_layout(make(latent, tp=8, dcp=8))
    blocks = one.blocks(46.80 * GIB)
    assert one.tokens(blocks, 65_536) == 715_072
    assert eight.tokens(blocks, 65_536) == 8 * 715_072
    assert (one.bytes_per_token, eight.bytes_per_token) == (70_272, 70_272 / 8)


def test_kda_with_latent_attention_starts_from_a_block_of_128() -> None:
    layout = cache_layout(make((LayerGroup("mla", 7, kv_lora_rank=512, rope_dim=64),
                                LayerGroup("kda", 20, state=StateDims(32, 128, 128, 32)))))
    assert layout.block_size % 128 == 0
    assert layout.block_size * 1152 >= 2_170_880 > (layout.block_size - 128) * 1152


def test_mode_all_keeps_a_state_for_every_block() -> None:
    mixed = (LayerGroup("full", 6, 2, 128),
             LayerGroup("mamba2", 23, state=StateDims(64, 64, 128, groups=8, chunk=128)))
    layout = cache_layout(make(mixed, kv_dtype="fp8", prefix_caching=True))
    assert layout.mode == "all"
    assert layout.per_request(262_144) == 63 + 4 * 63


@pytest.mark.parametrize(("mode", "asked", "block"), [("all", None, 2_176), ("all", 400, 2_400), ("all", 512, 2_560), ("align", 400, 2_096)])
def test_a_block_that_is_asked_for_takes_the_place_of_the_chunk_in_mode_all(mode: Any, asked: int | None, block: int) -> None:
    geometry = (LayerGroup("full", 6, 2, 128), LayerGroup("mamba2", 23, state=StateDims(64, 64, 128, groups=8, chunk=128)))
    assert cache_layout(make(geometry, mamba_cache_mode=mode, prefix_caching=True, mamba_block_size=asked, mamba_cache_dtype="float32")).block_size == block



def test_near_equal_kinds_are_padded_to_the_larger() -> None:
    assert layers_per_group([10, 14], 1.5) == 14
    assert layers_per_group([10, 15], 1.5) == 10
    assert layers_per_group([6, 23], 1.5) == 6


@pytest.mark.parametrize(("release", "groups"), [("0.11.0", 3), ("0.12.0", 3), ("0.17.1", 3), ("0.18.0", 2)])
def test_how_near_is_near_enough_changed_with_releases(release: str, groups: int) -> None:
    thirteen = (LayerGroup("full", 10, 8, 64), LayerGroup("sliding", 13, 8, 64, window=128))
    assert sum(bucket.groups for bucket in cache_layout(make(thirteen, release)).buckets) == groups


def test_unequal_draft_widths_share_one_table() -> None:
    draft = Speculation("eagle3", 3, (LayerGroup("full", 1, 2, 64),))
    layout = cache_layout(make(DENSE, speculation=draft))
    assert layout.bytes_per_block == 36 * 65_536 + 16 * 2 * 128 * 2
    assert layout.per_request(262_144) == 16_384


def test_pages_that_do_not_divide_are_padded() -> None:
    layout = cache_layout(make(GEMMA, "0.22.0", kv_dtype="int8_per_token_head", tp=2, max_num_batched_tokens=4096))
    assert layout.tokens(16_713, 262_144) == 447_199
    later = cache_layout(make(GEMMA, "0.24.0", kv_dtype="int8_per_token_head", tp=2, max_num_batched_tokens=4096))
    assert [bucket.block for bucket in later.buckets] == [16, 16]


def test_pipeline_counts_the_fullest_stage() -> None:
    assert cache_layout(make((LayerGroup("full", 61, 8, 128),), pp=2)).bytes_per_token == 31 * 4096


def test_pipeline_stages_share_the_groups_of_the_whole_model() -> None:
    whole, stage = (cache_layout(make(GDN_27B, pp=pp, mamba_cache_mode="align")) for pp in (1, 3))
    assert stage.per_request(262_144) == whole.per_request(262_144)
    assert stage.bytes_per_block * 16 == whole.bytes_per_block * 6


@pytest.mark.parametrize(("release", "kind", "capability", "blocks"), [
    ("0.31.0", "mamba2", (8, 9), 2), ("0.32.0", "mamba2", (8, 9), 3), ("0.32.0", "gdn", (9, 0), 2), ("0.33.0", "gdn", (9, 0), 3),
    ("0.33.0", "gdn", (12, 0), 3), ("0.33.0", "gdn", (8, 9), 2), ("0.33.0", "kda", (9, 0), 2)])
def test_a_checkpoint_inside_a_prefill_costs_a_state(release: str, kind: Any, capability: tuple[int, int], blocks: int) -> None:
    layers = (LayerGroup("full", 16, 4, 256), LayerGroup(kind, 16, state=StateDims(48, 128, 128, 16)))
    inputs = replace(make(layers, release, mamba_cache_mode="align"), card=CardMemory(vram_mib=81_559, capability=capability))
    layout = cache_layout(inputs)
    assert layout.per_request(layout.block_size) == 1 + blocks


def test_checkpoints_of_gdn_layers_keep_blocks_on_their_grid() -> None:
    hopper = CardMemory(vram_mib=81_559, capability=(9, 0))
    sizes = [cache_layout(replace(make(GDN_27B, r, mamba_cache_mode="align"), card=hopper)).block_size for r in ("0.32.0", "0.33.0")]
    assert sizes == [784, 832]


def test_the_block_that_is_never_lent_counts_at_admission() -> None:
    old, new = cache_layout(make(DENSE, "0.28.0")), cache_layout(make(DENSE, "0.29.0"))
    pool = old.needed_bytes(32_768)
    assert (old.longest(pool), new.longest(pool)) == (32_768, 32_768 - 16)
    assert new.needed_bytes(32_768) == pool


def test_old_releases_print_blocks_over_groups() -> None:
    old, new = cache_layout(make(GEMMA, "0.20.0")), cache_layout(make(GEMMA, "0.21.0"))
    assert old.tokens(60_000, 262_144) == 60_000 // 6 * 16
    assert new.tokens(60_000, 262_144) == 60_000 * 262_144 // new.per_request(262_144)


def test_old_releases_print_the_same_for_one_group() -> None:
    assert cache_layout(make(DENSE, "0.11.0", max_model_len=4096)).tokens(512, 4096) == 8192


def test_measured_geometry_is_linear_with_a_fixed_part() -> None:
    linear = cache_layout(make(MeasuredKV(26_078)))
    assert linear.tokens(linear.blocks(14.5 * GIB), 262_144) == pytest.approx(596_630, rel=0.002)
    fixed = cache_layout(make(MeasuredKV(1000, fixed_bytes=50_000, block=1, admission_factor=3.0)))
    assert fixed.needed_bytes(100) == 3 * fixed.request_bytes(100) == 450_000
    assert fixed.concurrency(1500, 100) == 10.0
    assert fixed.tokens(1500, 100) == 1000


def test_measured_pairs_of_one_model_agree() -> None:
    layout = cache_layout(make(MeasuredKV(26_078)))
    for kv_gib, tokens in ((7.52, 309_594), (12.26, 504_841), (15.0, 617_633), (17.0, 700_087)):
        assert layout.tokens(layout.blocks(kv_gib * GIB), 262_144) == pytest.approx(tokens, rel=0.001)


def test_states_alone_do_not_limit_the_window() -> None:
    layout = cache_layout(make((LayerGroup("mamba2", 24, state=StateDims(64, 64, 128, groups=8)),)))
    assert layout.per_request(262_144) == 1 == layout.per_request(16)
    assert layout.bytes_per_token == 0


def test_a_wider_draft_does_not_lengthen_the_hybrids_block() -> None:
    """The platform aligns to the target's attention; the draft's wider page then pads the states and lengthens the target's blocks."""
    own = Speculation("mtp", 1, (LayerGroup("full", 1, 4, 256),))
    plain = cache_layout(make(GDN_27B, mamba_cache_mode="align", speculation=own))
    wide = Speculation("eagle3", 1, (LayerGroup("full", 5, 32, 128),))
    drafted = cache_layout(make(GDN_27B, mamba_cache_mode="align", speculation=wide))
    blocks = {bucket.shape.kv_heads: bucket.block for bucket in drafted.buckets if not bucket.is_state}
    assert (blocks[32], blocks[4]) == (plain.block_size, 4 * plain.block_size)
    assert plain.block_size == 800
