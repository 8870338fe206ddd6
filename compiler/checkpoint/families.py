"""Which architectures can be read: how each `model_type` of config.json lays out its layers, and which keys it may leave out.

What a key that is left out means is the default of the configuration class in transformers 5, which vLLM 0.27.1 reads configs with.
A type that is not listed is refused: its layers may keep something that nobody here has read about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

Layout = Literal[
    "attention", "mla", "gdn", "nemotron", "kda", "granite", "chunked", "sparse", "compressed", "compressed-shared", "sparse-kda",
    "indexed-gdn", "shared", "two-widths", "parallel", "conv",
]  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """How one type of config is read.

    `kv_as_heads`: without `num_key_value_heads` there are as many as query heads. `derived_width`: without `head_dim` it is the hidden
    width over the heads. `period`: without `layer_types` each such layer is a full one and the others slide. `window`: the sliding
    window of a file without that key. `tied`: without `tie_word_embeddings` the output shares the embeddings. `gated`: a dense
    layer has three matrices, else two. `counted`: the widths that are read make all of its parameters, so they can be held against the
    files.
    """

    name: str
    layout: Layout = "attention"
    kv_as_heads: bool = False
    derived_width: bool = False
    period: int = 0
    window: int | None = None
    tied: bool = False
    gated: bool = True
    counted: bool = True


FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama3", kv_as_heads=True, derived_width=True),
    "mistral": Family("mistral", derived_width=True, window=4096),
    "ministral": Family("mistral", derived_width=True, window=4096),
    "mixtral": Family("mixtral", derived_width=True),
    "qwen2": Family("qwen2", derived_width=True, window=4096),
    "qwen2_moe": Family("qwen2-moe", derived_width=True, window=4096),
    "qwen3": Family("qwen3", window=4096),
    "qwen3_moe": Family("qwen3-moe", window=4096),
    "qwen3_vl": Family("qwen3-vl", window=4096),
    "qwen3_vl_moe": Family("qwen3-vl-moe", window=4096),
    "qwen3_next": Family("qwen3-next", "gdn"),
    "qwen3_5": Family("qwen3.5", "gdn"),
    "qwen3_5_moe": Family("qwen3.5", "gdn"),
    "gemma2": Family("gemma2", period=2, window=4096, tied=True),
    "gemma3": Family("gemma3", period=6, window=4096, tied=True),
    "gpt_oss": Family("gpt-oss", window=128),
    "deepseek_v2": Family("deepseek-v2", "mla"),
    "deepseek_v3": Family("deepseek-v3", "mla"),
    "kimi_k2": Family("kimi-k2", "mla"),
    "glm4_moe_lite": Family("glm4-moe", "mla"),
    "kimi_linear": Family("kimi-linear", "kda"),
    "nemotron_h": Family("nemotron-h", "nemotron", gated=False),
    "glm4": Family("glm4"),
    "glm4_moe": Family("glm4-moe"),
    "phi3": Family("phi3", kv_as_heads=True, derived_width=True),
    "granite": Family("granite", kv_as_heads=True, derived_width=True),
    "granitemoehybrid": Family("granite4", "granite", kv_as_heads=True, derived_width=True),
    "seed_oss": Family("seed-oss"),
    "olmo2": Family("olmo2", kv_as_heads=True, derived_width=True),
    "olmo3": Family("olmo3", kv_as_heads=True, derived_width=True, period=4, window=4096),
    "exaone4": Family("exaone4", derived_width=True, period=4, window=4096),
    "cohere2": Family("cohere2", kv_as_heads=True, derived_width=True, period=4, window=4096, tied=True),
    "minimax_m2": Family("minimax-m2"),
    "llama4": Family("llama4", "chunked"),
    "smollm3": Family("smollm3", derived_width=True, tied=True),
    "deepseek_v32": Family("deepseek-v3.2", "sparse"),
    "glm_moe_dsa": Family("glm5", "sparse"),
    "deepseek_v4": Family("deepseek-v4", "compressed", counted=False),
    "deepseek_v41": Family("deepseek-v4.1", "compressed-shared", counted=False),
    "glm5_next": Family("glm5-next", "sparse-kda", counted=False),
    "qwen4_exp": Family("qwen4-exp", "indexed-gdn", counted=False),
    "gemma3n": Family("gemma3n", "shared", window=512, tied=True, counted=False),
    "gemma4": Family("gemma4", "shared", window=512, tied=True, counted=False),
    "mimo_v2_flash": Family("mimo-v2", "two-widths", counted=False),
    "mimo_v2": Family("mimo-v2", "two-widths", counted=False),
    "falcon_h1": Family("falcon-h1", "parallel", kv_as_heads=True, derived_width=True),
    "lfm2": Family("lfm2", "conv", derived_width=True, tied=True, counted=False),
    "qwen2_vl": Family("qwen2-vl", derived_width=True, window=4096),
    "qwen2_5_vl": Family("qwen2.5-vl", derived_width=True, window=4096),
    "ministral3": Family("mistral3"),
    "mistral4": Family("mistral4", "mla"),
    "gemma": Family("gemma", tied=True),
    "olmoe": Family("olmoe", kv_as_heads=True, derived_width=True),
    "glm4v": Family("glm4v", derived_width=True),
    "glm4v_moe": Family("glm4v-moe", derived_width=True),
    "hunyuan_v1_dense": Family("hunyuan", kv_as_heads=True, derived_width=True),
    "ernie4_5": Family("ernie4.5", tied=True),
    "ernie4_5_moe": Family("ernie4.5", derived_width=True, tied=True),
}


def family_of(*model_types: str | None) -> Family | None:
    """The family of the first `model_type` that is known; the text part of a multimodal one ends in `_text`."""
    names = (name for kind in model_types if kind for name in (kind, kind.removesuffix("_text")))
    return next((FAMILIES[name] for name in names if name in FAMILIES), None)
