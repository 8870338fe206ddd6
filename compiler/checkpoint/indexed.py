"""Layers that choose which past tokens they read: latents, heads or compressed latents with an indexer's keys beside them.

What each keeps was read in the model code of vLLM 0.33.0 (`deepseek_v2.py`, `models/deepseek_v4`, `deepseek_v41`, `glm5next`, `qwen4_exp`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from compiler.checkpoint.json_file import Fields

Group = dict[str, Any]
RATIOS = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
INDEXED_RATIO = 4
"""DeepSeek-V4's layers with this ratio have an indexer."""


def indexers(text: Fields, chosen: list[int], ratio: int = 1) -> list[Group]:
    """The indexers of the `chosen` layers, by index: some read the choice of an earlier layer and keep no keys."""
    listed, pattern = text.data.get("indexer_types"), text.data.get("index_topk_pattern")
    if isinstance(listed, list):
        shared = {index for index, kind in enumerate(listed) if kind == "shared"}
    elif isinstance(pattern, (str, list)):
        shared = {index for index, kind in enumerate(pattern) if kind in ("S", "shared")}
    else:
        every, offset = text.whole("index_topk_freq") or 1, text.whole("index_skip_topk_offset", least=0)
        shared = {index for index in chosen if max(index - (2 if offset is None else offset) + 1, 0) % every}
    own = sum(index not in shared for index in chosen)
    return [{"kind": "indexer", "layers": own, "head_dim": text.required("index_head_dim"), **({"ratio": ratio} if ratio > 1 else {})}]


def compressed(text: Fields, layers: int) -> list[Group]:
    """DeepSeek-V4's layers by the ratio of their latents; entries behind the last layer are of the draft head."""
    listed = text.items("layer_types", str)
    ratios = [RATIOS.get(kind, -1) for kind in listed] if listed is not None else text.items("compress_ratios", int)
    if ratios is None:
        text.missing("compress_ratios", "layer_types")
        return []
    name = "compress_ratios" if listed is None else "layer_types"
    if len(ratios) < layers or set(ratios[:layers]) - set(RATIOS.values()):
        text.wrong(name, f"`{name}` does not say for each of {layers} layers one of the ratios 0, 4 and 128", _AGAIN)
    return [_latents(text, count, ratio, ratio == INDEXED_RATIO) for ratio, count in sorted(Counter(ratios[:layers]).items())]


def compressed_shared(text: Fields, layers: int) -> list[Group]:
    """DeepSeek-V4.1's layers: only the sources keep latents and keys, all others read those of the source below."""
    ratios, sources = text.items("compress_ratios", int), text.items("kv_source_layer_ids", int)
    if ratios is None or sources is None:
        text.missing("compress_ratios" if ratios is None else "kv_source_layer_ids")
        return []
    if len(ratios) < layers or any(not 0 <= index < layers or ratios[index] not in (1, 2) for index in sources):
        text.wrong("kv_source_layer_ids", f"a source is none of {layers} layers, or its ratio is neither 1 nor 2", _AGAIN)
        return []
    own = Counter(ratios[index] for index in set(sources))
    groups = [_latents(text, count, ratio, True) for ratio, count in sorted(own.items(), reverse=True)]
    alone = layers - len(set(sources))
    return [*([_latents(text, alone, 0, False)] if alone else []), *groups]


def _latents(text: Fields, layers: int, ratio: int, has_keys: bool) -> Group:
    group = {"kind": "compressed", "layers": layers, "head_dim": text.required("head_dim"), "window": text.required("sliding_window")}
    if ratio:
        group["ratio"] = ratio
    if has_keys:
        group["index_head_dim"] = text.required("index_head_dim")
    return group


def grouped_keys(text: Fields, full: int) -> list[Group]:
    """Qwen4's indexers, whose keys stay in 16 bits; none where the config names no budget."""
    if text.data.get("indexer_budget") is None or not full:
        return []
    ratio = text.required("indexer_compress_ratio")
    found: Group = {"kind": "indexer", "layers": full, "head_dim": text.required("indexer_head_dim")}
    return [{**found, **({"ratio": ratio} if ratio > 1 else {}), "dtype": "bfloat16"}]


def ngram_convolutions(text: Fields) -> list[Group]:
    """The short convolution behind each n-gram table: every rank keeps all streams of the hidden width."""
    tables = text.items("ple_layer_ids", int)
    if not tables:
        return []
    kernel, dilation = text.whole("ple_conv_kernel_size") or 4, text.whole("ngram_size") or 3
    streams = text.whole("hc_count") or 4
    width = text.required("hidden_size") * streams
    return [{"kind": "conv", "layers": len(set(tables)), "width": width, "conv_kernel": (kernel - 1) * dilation + 1, "replicated": True}]


_AGAIN = "Get config.json from its publisher again."
