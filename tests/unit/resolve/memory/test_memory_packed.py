"""Caches of several page sizes in one slab: what each release makes of DeepSeek-V4's layers, and of indexers that pool tokens."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.plan.memory import GIB
from compiler.resolve.memory import CardMemory, LayerGroup, MemoryInputs, Speculation, StateDims, Weights, cache_layout
from compiler.resolve.memory.inputs import own_draft

V4 = (
    LayerGroup("compressed", 2, head_dim_k=512, window=128),
    LayerGroup("compressed", 21, head_dim_k=512, window=128, ratio=4, index_dim=128),
    LayerGroup("compressed", 20, head_dim_k=512, window=128, ratio=128),
)
GLM = (
    LayerGroup("mla", 11, kv_lora_rank=512), LayerGroup("indexer", 11, head_dim_k=128, ratio=4),
    LayerGroup("kda", 34, state=StateDims(64, 128, 128, 64)),
)
NEXT = (
    LayerGroup("full", 12, 2, 256), LayerGroup("indexer", 12, head_dim_k=128, ratio=4, kv_dtype="bf16"),
    LayerGroup("gdn", 36, state=StateDims(48, 128, 128, 16)), LayerGroup("conv", 1, state=StateDims(1, 10_240, 0, conv_kernel=10, is_replicated=True)),
)
PAGES = (37_440, 8640, 1728)  # latents at 4 and 128 tokens, an indexer's keys; rounded up to multiples of 576


def make(groups: tuple[LayerGroup, ...], release: str, **more: Any) -> MemoryInputs:
    window = more.pop("max_model_len", 262_144)
    return MemoryInputs(release, CardMemory(vram_mib=81_559), groups, Weights(), window, max_num_batched_tokens=8192, **more)


@pytest.mark.parametrize(("release", "block"), [
    ("0.22.1", 22 * sum(PAGES)), ("0.23.0", 22 * PAGES[0] + 21 * PAGES[1] + 20 * PAGES[2]), ("0.26.0", 22 * PAGES[0] + 21 * PAGES[1] + 20 * PAGES[2]),
    ("0.27.1", 21 * (PAGES[0] + PAGES[1]) + 20 * PAGES[2]), ("0.33.0", 21 * (PAGES[0] + PAGES[1]) + 20 * PAGES[2])])
def test_a_block_of_deepseek_v4_follows_the_release(release: str, block: int) -> None:
    layout = cache_layout(make(V4, release))
    assert (layout.bytes_per_block, layout.block_size) == (block, 256)


def test_every_cache_of_a_request_is_counted() -> None:
    layout = cache_layout(make(V4, "0.31.0"))
    windows = 2 * (-(-(127 + 16_384) // 64) + 1)
    states = -(-(7 + 16_384) // 4) + 1 + -(-(127 + 16_384) // 8) + 1
    assert layout.per_request(262_144) == 1024 + windows + states
    assert cache_layout(make(V4, "0.31.0", dcp=2)).per_request(262_144) == 512 + windows + states


def test_the_check_asked_for_whole_tuples_until_0_29() -> None:
    before, after = cache_layout(make(V4, "0.28.0")), cache_layout(make(V4, "0.29.0"))
    assert before.needed_bytes(262_144) == after.per_request(262_144) * 22 * sum(PAGES)
    assert after.needed_bytes(262_144) == after.request_bytes(262_144)
    assert before.longest(6 * GIB) < after.longest(6 * GIB)


def test_draft_layers_keep_a_window_and_may_change_the_groups() -> None:
    assert own_draft(V4, 3) == (LayerGroup("compressed", 3, head_dim_k=512, window=128),)
    drafted = make(V4, "0.26.0", speculation=Speculation("mtp", 2, own_draft(V4, 3)))
    assert cache_layout(drafted).bytes_per_block - cache_layout(make(V4, "0.26.0")).bytes_per_block == PAGES[0]


def test_plain_cache_types_have_pages_of_whole_numbers() -> None:
    layout = cache_layout(make(V4, "0.33.0", kv_dtype="bfloat16"))
    keys, latents, few = 64 * 132, 64 * 1024, 2 * 1024
    assert layout.bytes_per_block == 21 * (latents + -(-keys // 512) * 512) + 20 * few


@pytest.mark.parametrize(("sources", "block"), [({1: 4}, 4 * (37_440 + 8640)), ({2: 4}, 4 * 37_440), ({2: 3, 1: 1}, 3 * (19_008 + 4608) + 37_440 + 8640)])
def test_deepseek_v4_1_keeps_latents_in_a_few_layers(sources: dict[int, int], block: int) -> None:
    """Equal numbers of latents and keys are a pattern that windows are cut to; unequal ones are not, and windows fill what is there."""
    owners = [LayerGroup("compressed", count, head_dim_k=512, window=128, ratio=ratio, index_dim=128) for ratio, count in sources.items()]
    layout = cache_layout(make((LayerGroup("compressed", 36, head_dim_k=512, window=128), *owners), "0.33.0"))
    assert (layout.block_size, layout.bytes_per_block) == (64, block)


def test_states_fill_blocks_that_attention_needs_anyway() -> None:
    layout = cache_layout(make(GLM, "0.31.0", tp=8))
    assert (layout.bytes_per_block, layout.block_size) == (11 * (640 * 1024 + 160 * 132), 640)
    assert sum(b.groups for b in layout.buckets if b.is_state) == 4
    assert layout.per_request(262_144) == 410 + 1 + 4


def test_a_draft_head_brings_its_indexer() -> None:
    head = own_draft(NEXT, 1)
    assert [(group.kind, group.layers) for group in head] == [("full", 1), ("indexer", 1)]
    layout = cache_layout(make(NEXT, "0.28.0", speculation=Speculation("mtp", 1, head), mamba_cache_mode="align"))
    assert (layout.block_size, layout.bytes_per_block) == (1584, 13 * 1584 * (2048 + 64))
    assert layout.longest(6.47 * GIB) == 231_264
    assert round(layout.needed_bytes(262_144) / GIB, 2) == 7.25


def test_an_indexer_of_single_tokens_shares_the_table_of_its_latents() -> None:
    groups = (LayerGroup("mla", 61, kv_lora_rank=512, rope_dim=64), LayerGroup("indexer", 61, head_dim_k=128))
    layout = cache_layout(make(groups, "0.33.0"))
    assert (layout.block_size, layout.bytes_per_block) == (64, 61 * 64 * (1152 + 132))
    assert layout.per_request(262_144) == 4096


def test_a_compressed_layer_without_a_window_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the sizes"):
        LayerGroup("compressed", 1, head_dim_k=512)


@pytest.mark.parametrize(("capability", "release", "kv_dtype", "latent"), [
    ((9, 0), "0.33.0", "fp8", 656), ((9, 0), "0.33.0", "auto", 1152), ((10, 0), "0.33.0", "fp8", 576), ((10, 3), "0.26.0", "auto", 1152),
    ((10, 0), "0.19.1", "fp8", 656), ((9, 0), "0.11.0", "auto", 656), ((9, 0), "0.12.0", "auto", 1152), ((12, 0), "0.33.0", "auto", 656), ((12, 1), "0.27.1", "fp8", 656), ((12, 0), "0.33.0", "bfloat16", 1152), (None, "0.33.0", "fp8", 656)])
def test_sparse_latents_are_kept_as_the_card_reads_them(capability: tuple[int, int] | None, release: str, kv_dtype: str, latent: int) -> None:
    groups = (LayerGroup("mla_ds", 61, kv_lora_rank=512, rope_dim=64), LayerGroup("indexer", 61, head_dim_k=128))
    card = CardMemory(vram_mib=183_359, capability=capability)
    layout = cache_layout(MemoryInputs(release, card, groups, Weights(), 32_768, tp=8, kv_dtype=kv_dtype, block_size=64, max_num_batched_tokens=8192))
    assert layout.bytes_per_block == 61 * 64 * (latent + 132)
