"""Bytes of one token and of one state, against figures that were printed or worked out by hand."""

from __future__ import annotations

import pytest

from compiler.resolve.memory.inputs import LayerGroup, StateDims
from compiler.resolve.memory.pages import heads_per_rank, token_bytes, turboquant_slot
from compiler.resolve.memory.states import hybrid_block, state_blocks, state_bytes

WIDE = LayerGroup("full", 1, kv_heads=8, head_dim_k=128)
LATENT = LayerGroup("mla", 1, kv_lora_rank=512, rope_dim=64)
GDN_35B = LayerGroup("gdn", 30, state=StateDims(v_heads=32, v_dim=128, k_dim=128, k_heads=16))
NEMOTRON = LayerGroup("mamba2", 23, state=StateDims(v_heads=64, v_dim=64, k_dim=128, groups=8, chunk=128))
KDA = LayerGroup("kda", 20, state=StateDims(v_heads=32, v_dim=128, k_dim=128, k_heads=32, ssm_dtype="bfloat16"))


@pytest.mark.parametrize(("dtype", "expected"), [
    ("auto", 4096), ("bfloat16", 4096), ("float32", 8192), ("fp8", 2048), ("fp8_e5m2", 2048),
    ("int8_per_token_head", 2112), ("int4_per_token_head", 1088), ("nvfp4", 1152),
    ("turboquant_k8v4", 1568), ("turboquant_4bit_nc", 1072), ("turboquant_k3v4_nc", 944), ("turboquant_3bit_nc", 816)])
def test_bytes_of_one_token(dtype: str, expected: int) -> None:
    assert token_bytes(WIDE, dtype, tp=1) == expected


@pytest.mark.parametrize(("dtype", "slot"), [
    ("turboquant_k8v4", 388), ("turboquant_4bit_nc", 262), ("turboquant_k3v4_nc", 230), ("turboquant_3bit_nc", 198)])
def test_turboquant_slots_at_head_256(dtype: str, slot: int) -> None:
    assert turboquant_slot(256, dtype) == slot


def test_turboquant_slots_are_made_even() -> None:
    assert turboquant_slot(66, "turboquant_k8v4") == 66 + 33 + 4 + 1


def test_latent_is_whole_on_every_rank() -> None:
    assert token_bytes(LATENT, "auto", tp=8) == 1152
    assert token_bytes(LATENT, "fp8", tp=1) == 576
    assert token_bytes(LATENT, "fp8_ds_mla", tp=1) == 656
    sparse = LayerGroup("mla_ds", 1, kv_lora_rank=512, rope_dim=64)
    assert [token_bytes(sparse, dtype, tp=4) for dtype in ("auto", "fp8", "bfloat16")] == [656, 656, 1152]


def test_heads_below_tensor_parallelism_are_copied() -> None:
    assert [heads_per_rank(2, tp) for tp in (1, 2, 4, 8)] == [2, 1, 1, 1]


def test_keys_and_values_may_differ_in_width() -> None:
    group = LayerGroup("full", 1, kv_heads=4, head_dim_k=192, head_dim_v=128)
    assert token_bytes(group, "auto", tp=2) == 2 * (192 + 128) * 2


def test_skipped_layers_keep_their_own_dtype() -> None:
    assert token_bytes(LayerGroup("full", 1, kv_heads=8, head_dim_k=128, kv_dtype="auto"), "nvfp4", 1) == 4096


def test_unknown_dtype_and_state_layers_have_no_bytes_per_token() -> None:
    with pytest.raises(ValueError, match="unknown cache dtype"):
        token_bytes(WIDE, "int3", 1)
    with pytest.raises(ValueError, match="no bytes per token"):
        token_bytes(GDN_35B, "auto", 1)
    with pytest.raises(ValueError, match="keeps no state"):
        state_bytes(WIDE, 1)


def test_state_bytes_of_each_kind() -> None:
    assert state_bytes(GDN_35B, tp=1) == 2_146_304
    assert state_bytes(GDN_35B, tp=2) == 1_073_152
    assert state_bytes(NEMOTRON, tp=1) == 2_134_016
    # KDA keeps float32 although the model says bfloat16.
    assert state_bytes(KDA, tp=1) == 3 * (3 * 32 * 128) * 2 + 32 * 128 * 128 * 4


def test_drafts_lengthen_the_convolution_only() -> None:
    longer = state_bytes(GDN_35B, 1, spec_tokens=3) - state_bytes(GDN_35B, 1)
    assert longer == 3 * (2 * 16 * 128 + 32 * 128) * 2


def test_state_dtype_can_be_overridden() -> None:
    assert state_bytes(NEMOTRON, 1, dtype="float16") == 64 * 64 * 128 * 2 + 3 * 6144 * 2
    assert state_bytes(NEMOTRON, 1, dtype="auto") == state_bytes(NEMOTRON, 1)
    with pytest.raises(ValueError, match="unknown state dtype"):
        state_bytes(NEMOTRON, 1, dtype="int8")


def test_mamba2_groups_are_raised_to_tensor_parallelism() -> None:
    # 8 groups on 16 ranks become 16, so each rank still holds one.
    assert state_bytes(NEMOTRON, tp=16) == (4096 + 2 * 16 * 128) // 16 * 3 * 2 + 4 * 64 * 128 * 4


def test_hybrid_blocks_of_printed_starts() -> None:
    assert hybrid_block(2_146_304, 2048, 16, "align", 64) == 1056
    assert hybrid_block(2_134_016, 512, 16, "align", 128) == 4176
    assert hybrid_block(2_134_016, 512, 16, "all", 128) == 4224


def test_state_blocks_of_each_mode() -> None:
    assert state_blocks("none", 262_144, 1056, 0) == 1
    assert state_blocks("align", 262_144, 1056, 2) == 4
    assert state_blocks("all", 262_144, 4224, 0) == 63
