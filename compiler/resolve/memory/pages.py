"""Bytes that one token costs in one attention layer on one rank.

Source: vLLM 0.27.1, ``v1/kv_cache_interface.py`` and ``quantization/turboquant/config.py``.
"""

from __future__ import annotations

from math import ceil

from compiler.resolve.memory.inputs import MLA_KINDS, LayerGroup

FP8_NAMES = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc"})
PER_TOKEN_HEAD_BITS = {"fp8_per_token_head": 8, "int8_per_token_head": 8, "int4_per_token_head": 4,
                       "int2_per_token_head": 2}
SIXTEEN_BIT = frozenset({"bf16", "bfloat16", "fp16", "half", "float16"})
# Bits of a key and of a value; a key of 8 bits is stored as plain fp8, without the two bytes of a scale.
TURBOQUANT_BITS = {"turboquant_k8v4": (8, 4), "turboquant_4bit_nc": (4, 4), "turboquant_k3v4_nc": (3, 4),
                   "turboquant_3bit_nc": (3, 3)}
DS_MLA_BYTES = 656  # fp8_ds_mla, the DeepSeek-V3.2 layout: 512 fp8 + 16 of scales + 128 of rotary keys
KNOWN_DTYPES = FP8_NAMES | SIXTEEN_BIT | PER_TOKEN_HEAD_BITS.keys() | TURBOQUANT_BITS.keys() | {
    "auto", "float32", "nvfp4", "fp8_ds_mla"}


def heads_per_rank(kv_heads: int, tp: int) -> int:
    """KV heads that one rank holds; below ``tp`` they are copied (``config/model.py: get_num_kv_heads``)."""
    return max(1, kv_heads // tp)


def token_bytes(group: LayerGroup, dtype: str, tp: int, auto_bytes: int = 2) -> int:
    """Bytes of one token in one layer of ``group`` with cache dtype ``dtype``.

    ``auto_bytes`` is the width of the model's own dtype. Raises ``ValueError`` for a state layer, which has no
    bytes per token, and for a dtype that the planner does not know.
    """
    name = (group.kv_dtype or dtype).lower()
    if name not in KNOWN_DTYPES:
        raise ValueError(f"unknown cache dtype {name!r}")
    if group.kind in MLA_KINDS:
        return _mla_bytes(group, name, auto_bytes)
    if group.kind == "indexer":
        return index_bytes(group.head_dim_k, group.kv_dtype)
    if group.kv_heads <= 0:
        raise ValueError(f"a {group.kind} layer has no bytes per token")
    heads = heads_per_rank(group.kv_heads, tp)
    return heads * _head_bytes(group.head_dim_k, group.head_dim_v or group.head_dim_k, name, auto_bytes)


def index_bytes(width: int, dtype: str | None) -> int:
    """Bytes of one key of an indexer: 8 bits a number and a scale of 4 bytes for every 128, whatever the cache dtype; 16 bits
    where the layer says so (``deepseek_v2.py: Indexer``, ``qsa_cache.py: QSACompressedKeyCache``)."""
    return 2 * width if dtype in SIXTEEN_BIT else width + 4 * ceil(width / 128)


def is_turboquant(dtype: str) -> bool:
    """True for the packed TurboQuant dtypes."""
    return dtype.lower() in TURBOQUANT_BITS


def turboquant_slot(head_dim: int, dtype: str) -> int:
    """Bytes of one key and one value of ``head_dim`` numbers, made even; scales included."""
    key_bits, value_bits = TURBOQUANT_BITS[dtype.lower()]
    key = head_dim if key_bits == 8 else ceil(head_dim * key_bits / 8) + 2
    value = ceil(head_dim * value_bits / 8) + 4
    return key + value + (key + value) % 2


def _mla_bytes(group: LayerGroup, name: str, auto_bytes: int) -> int:
    """One latent a token, whole on every rank."""
    if name == "fp8_ds_mla" or (group.kind == "mla_ds" and name not in SIXTEEN_BIT):
        return DS_MLA_BYTES
    width = 1 if name in FP8_NAMES else _plain_width(name, auto_bytes)
    return (group.kv_lora_rank + group.rope_dim) * width


def _head_bytes(key: int, value: int, name: str, auto_bytes: int) -> int:
    """Key and value of one head."""
    if name in FP8_NAMES or name == "fp8_ds_mla":
        return key + value
    if name in PER_TOKEN_HEAD_BITS:
        return (key + value) * PER_TOKEN_HEAD_BITS[name] // 8 + 8
    if name == "nvfp4":
        return key // 2 + key // 16 + value // 2 + value // 16
    if name in TURBOQUANT_BITS:
        return turboquant_slot(key, name)
    return (key + value) * _plain_width(name, auto_bytes)


def _plain_width(name: str, auto_bytes: int) -> int:
    """Bytes of one number in an unpacked dtype; packed names fall back to the model's own width."""
    if name in SIXTEEN_BIT:
        return 2
    return 4 if name == "float32" else auto_bytes
