"""Layers by kind, from config.json: what each keeps for a token or for a sequence. Counts are layers, widths are elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from compiler.checkpoint.families import Family
from compiler.checkpoint.indexed import compressed, compressed_shared, grouped_keys, indexers, ngram_convolutions
from compiler.checkpoint.json_file import Fields
from compiler.diagnostics import Severity

Group = dict[str, Any]
"""One entry of `architecture.kv` of a model spec."""
Reader = Callable[[Fields, Family, int, str], list[Group]]

_KINDS = {
    "full_attention": "full",
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "conv": "conv",
    "attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "mamba": "mamba",
}
_STATE_TYPES = ("float32", "float16", "bfloat16")


def layer_groups(text: Fields, family: Family, dtype: str) -> list[Group]:
    """The groups of a text model; findings stand in `text.problems`. `dtype` is the checkpoint's own type, for states that follow it."""
    readers: dict[str, Reader] = {
        "attention": _attention,
        "chunked": _attention,
        "gdn": _gated_delta,
        "kda": _kimi,
        "nemotron": _nemotron,
        "granite": _granite,
        "mla": lambda text, family, layers, dtype: [_latent(text, layers)],
        "sparse": _sparse,
        "compressed": lambda text, family, layers, dtype: compressed(text, layers),
        "compressed-shared": lambda text, family, layers, dtype: compressed_shared(text, layers),
        "sparse-kda": _sparse_kimi,
        "indexed-gdn": _indexed_delta,
        "shared": _shared,
        "two-widths": _two_widths,
        "parallel": _parallel,
        "conv": _convolutions,
    }
    layers = text.required("num_hidden_layers")
    return [group for group in readers[family.layout](text, family, layers, dtype) if group["layers"]]


def head_width(text: Fields, family: Family) -> int:
    """Width of a head: said, or the hidden width over the heads where the family means that."""
    said = text.whole("head_dim", "attention_head_dim")
    if said is not None or text.data.get("head_dim") is not None:
        return said or 1
    if not family.derived_width:
        text.missing("head_dim")
        return 1
    hidden, heads = text.required("hidden_size"), text.required("num_attention_heads")
    if hidden % heads:
        text.wrong(
            "num_attention_heads",
            f"{heads} heads do not divide a hidden width of {hidden}, and `head_dim` is not said",
            "Ask the publisher for `head_dim`.",
        )
    return max(1, hidden // heads)


def _heads(text: Fields, family: Family) -> Group:
    kv = text.whole("num_key_value_heads")
    if kv is None and text.data.get("num_key_value_heads") is None:
        kv = text.required("num_attention_heads") if family.kv_as_heads else text.required("num_key_value_heads")
    heads = text.whole("num_attention_heads")
    if kv and heads and heads % kv:
        text.wrong(
            "num_key_value_heads", f"{kv} key/value heads do not divide {heads} query heads", "Get config.json from its publisher again."
        )
    return {"kv_heads": kv or 1, "head_dim": head_width(text, family)}


def _attention(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    heads = _heads(text, family)
    kinds = _kinds(text, layers, "full", "sliding", "chunked") or _patterned(text, family, layers)
    found: list[Group] = [{"kind": "full", "layers": kinds["full"], **heads}]
    if kinds["sliding"]:
        found.append(
            {
                "kind": "sliding",
                "layers": kinds["sliding"],
                **heads,
                "window": text.whole("sliding_window") or family.window or text.required("sliding_window"),
            }
        )
    if kinds["chunked"]:
        found.append({"kind": "chunked", "layers": kinds["chunked"], **heads, "window": text.required("attention_chunk_size")})
    return found


def _kinds(text: Fields, layers: int, *known: str) -> Counter[str] | None:
    """Layers by kind where `layer_types` lists them; `known` are the kinds that the family has."""
    listed = text.items("layer_types", str)
    if listed is None:
        return None
    unknown = sorted(name for name in set(listed) if _KINDS.get(name) not in known)
    if unknown:
        text.say(
            "CKP004",
            Severity.ERROR,
            f"`layer_types` names {', '.join(unknown)}, which nobody here has read about",
            "What such a layer keeps is not known.",
            "Write the spec by hand, with `measured_kv` from a start-up.",
            (*text.route, "layer_types"),
        )
    if len(listed) != layers:
        text.wrong(
            "layer_types",
            f"`layer_types` lists {len(listed)} layers and `num_hidden_layers` says {layers}",
            "Get config.json from its publisher again.",
        )
    return Counter(_KINDS.get(kind, kind) for kind in listed)


def _patterned(text: Fields, family: Family, layers: int) -> Counter[str]:
    """Layers by kind where only a window, a pattern or an interval is said."""
    if family.layout == "chunked":
        return _without_rope(text, layers)
    window = text.whole("sliding_window") if "sliding_window" in text.data else family.window
    if (
        window is None
        or text.flag("use_sliding_window") is False
        or ("use_sliding_window" not in text.data and family.name.startswith(("qwen", "smollm")))
    ):
        return Counter(full=layers)
    if text.flag("use_sliding_window"):
        first = text.whole("max_window_layers", least=0)
        full = min(layers, first if first is not None else 0)
        return Counter(full=full, sliding=layers - full)
    if family.name == "gpt-oss":
        return Counter(sliding=(layers + 1) // 2, full=layers // 2)
    period = text.whole("sliding_window_pattern", "_sliding_window_pattern") or family.period
    full = layers // period if period else 0
    return Counter(full=full, sliding=layers - full)


def _without_rope(text: Fields, layers: int) -> Counter[str]:
    listed = text.items("no_rope_layers", int)
    if listed:
        return Counter("chunked" if roped else "full" for roped in listed)
    period = text.whole("no_rope_layer_interval") or 4
    return Counter(full=layers // period, chunked=layers - layers // period)


def _latent(text: Fields, layers: int) -> Group:
    return {
        "kind": "mla",
        "layers": layers,
        "kv_lora_rank": text.required("kv_lora_rank"),
        "rope_dim": text.required("qk_rope_head_dim", least=0),
    }


def _sparse(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    return [{**_latent(text, layers), "kind": "mla-ds"}, *indexers(text, list(range(layers)))]


def _sparse_kimi(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    listed = text.items("layer_types", str)
    kinds = _kinds(text, layers, "full", "linear")
    if listed is None or kinds is None:
        text.missing("layer_types")
        return []
    linear = text.section("linear_attn_config") or text
    state = {
        "heads": linear.required("num_heads", "linear_num_heads"),
        "head_dim": linear.required("head_dim" if linear is not text else "linear_head_dim"),
        "conv_kernel": linear.required("short_conv_kernel_size", "linear_conv_kernel_dim"),
    }
    chosen = [index for index, kind in enumerate(listed) if _KINDS.get(kind) == "full"]
    return [
        _latent(text, len(chosen)),
        *indexers(text, chosen, text.whole("index_kpool") or 1),
        {"kind": "kda", "layers": kinds["linear"], **state},
    ]


def _indexed_delta(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    full, linear = _gated_delta(text, family, layers, dtype)
    return [full, *grouped_keys(text, full["layers"]), linear, *ngram_convolutions(text)]


def _shared(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    """Gemma 3n and 4: the last layers read the cache of an earlier one; full layers may have heads of their own width and number."""
    listed = text.items("layer_types", str)
    if listed is None or _kinds(text, layers, "full", "sliding") is None:
        text.missing("layer_types")
        return []
    shared = text.whole("num_kv_shared_layers", least=0) or 0
    if shared >= layers:
        text.wrong("num_kv_shared_layers", f"{shared} of {layers} layers share a cache", "Get config.json from its publisher again.")
    own = Counter(_KINDS.get(kind, kind) for kind in listed[: max(1, layers - shared)])
    heads, full = _heads(text, family), _heads(text, family)
    if family.name == "gemma4":
        full["head_dim"] = text.whole("global_head_dim") or 512
        if text.flag("attention_k_eq_v"):
            full["kv_heads"] = text.whole("num_global_key_value_heads") or full["kv_heads"]
    window = text.whole("sliding_window") or family.window
    return [{"kind": "full", "layers": own["full"], **full}, {"kind": "sliding", "layers": own["sliding"], **heads, "window": window}]


def _two_widths(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    """MiMo-V2: sliding layers have heads of their own, and values are narrower than keys."""
    pattern = text.items("hybrid_layer_pattern", int)
    if pattern is None or len(pattern) != layers:
        text.missing("hybrid_layer_pattern")
        return []
    sliding = {
        "kv_heads": text.required("swa_num_key_value_heads"),
        "head_dim": text.required("swa_head_dim"),
        **_value_width(text, "swa_v_head_dim", "swa_head_dim"),
        "window": text.required("sliding_window_size", "sliding_window"),
    }
    full = {**_heads(text, family), **_value_width(text, "v_head_dim", "head_dim")}
    return [
        {"kind": "sliding", "layers": sum(kind == 1 for kind in pattern), **sliding},
        {"kind": "full", "layers": sum(kind != 1 for kind in pattern), **full},
    ]


def _value_width(text: Fields, value: str, key: str) -> Group:
    width = text.whole(value)
    return {} if width is None or width == text.whole(key) else {"value_head_dim": width}


def _mamba(text: Fields, dtype: str) -> Group:
    """A Mamba-2 state under the keys that Granite and Falcon-H1 share."""
    return {
        "heads": text.required("mamba_n_heads"),
        "head_dim": text.required("mamba_d_head"),
        "groups": text.required("mamba_n_groups"),
        "state_dim": text.required("mamba_d_state"),
        "conv_kernel": text.required("mamba_d_conv"),
        "chunk": text.required("mamba_chunk_size"),
        "state_dtype": _state_type(text, "", dtype),
    }


def _parallel(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    """Falcon-H1: every layer has attention and a Mamba-2 state side by side."""
    return [{"kind": "full", "layers": layers, **_heads(text, family)}, {"kind": "mamba2", "layers": layers, **_mamba(text, dtype)}]


def _convolutions(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    """LFM2: attention in some layers, a short convolution in the others."""
    kinds = _kinds(text, layers, "full", "conv")
    if kinds is None:
        chosen = text.items("full_attn_idxs", int)
        if chosen is None:
            text.missing("layer_types", "full_attn_idxs")
            return []
        kinds = Counter(full=len(chosen), conv=layers - len(chosen))
    state = {"width": text.required("conv_dim", "hidden_size"), "conv_kernel": text.required("conv_L_cache", least=2)}
    return [{"kind": "full", "layers": kinds["full"], **_heads(text, family)}, {"kind": "conv", "layers": kinds["conv"], **state}]


def _gated_delta(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    kinds = _kinds(text, layers, "full", "linear")
    if kinds is None:
        interval = text.required("full_attention_interval")
        kinds = Counter(full=layers // interval, linear=layers - layers // interval)
    state = {
        "key_heads": text.required("linear_num_key_heads"),
        "value_heads": text.required("linear_num_value_heads"),
        "key_head_dim": text.required("linear_key_head_dim"),
        "value_head_dim": text.required("linear_value_head_dim"),
        "conv_kernel": text.required("linear_conv_kernel_dim"),
        "state_dtype": _state_type(text, "mamba_ssm_dtype", dtype),
    }
    return [{"kind": "full", "layers": kinds["full"], **_heads(text, family)}, {"kind": "gdn", "layers": kinds["linear"], **state}]


def _kimi(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    linear = text.section("linear_attn_config")
    if linear is None:
        text.missing("linear_attn_config")
        return []
    full, kda = linear.items("full_attn_layers", int) or [], linear.items("kda_layers", int) or []
    if sorted([*full, *kda]) != list(range(1, layers + 1)):
        linear.wrong(
            "kda_layers",
            f"{len(full)} full and {len(kda)} linear layers are not the {layers} of `num_hidden_layers`, each once",
            "Get config.json from its publisher again.",
        )
    state = {
        "heads": linear.required("num_heads"),
        "head_dim": linear.required("head_dim"),
        "conv_kernel": linear.required("short_conv_kernel_size"),
    }
    return [_latent(text, len(full)), {"kind": "kda", "layers": len(kda), **state}]


def hybrid_pattern(text: Fields) -> list[str]:
    """The layers of a Nemotron-H as letters: M Mamba, E experts, * attention, - a plain feed-forward; empty where none is said."""
    pattern = text.text("hybrid_override_pattern")
    letters = {"mamba": "M", "moe": "E", "attention": "*", "mlp": "-"}
    return list(pattern) if pattern else [letters.get(kind, kind) for kind in text.items("layers_block_type", str) or ()]


def _nemotron(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    listed = hybrid_pattern(text)
    pattern = text.data.get("hybrid_override_pattern")
    if not listed:
        text.missing("hybrid_override_pattern", "layers_block_type")
    elif set(listed) - set("ME*-") or len(listed) != layers:
        text.wrong(
            "hybrid_override_pattern" if pattern else "layers_block_type",
            f"the pattern has {len(listed)} layers, `num_hidden_layers` says {layers}, or it names a kind that is not one of M, E, * and -",
            "Get config.json from its publisher again.",
        )
    kinds = Counter(listed)
    state = {
        "heads": text.required("mamba_num_heads"),
        "head_dim": text.required("mamba_head_dim"),
        "groups": text.required("n_groups"),
        "state_dim": text.required("ssm_state_size"),
        "conv_kernel": text.required("conv_kernel"),
        "chunk": text.required("chunk_size"),
        "state_dtype": _state_type(text, "mamba_ssm_cache_dtype", dtype),
    }
    return [{"kind": "full", "layers": kinds["*"], **_heads(text, family)}, {"kind": "mamba2", "layers": kinds["M"], **state}]


def _granite(text: Fields, family: Family, layers: int, dtype: str) -> list[Group]:
    kinds = _kinds(text, layers, "full", "mamba")
    if kinds is None:
        text.missing("layer_types")
        return []
    return [{"kind": "full", "layers": kinds["full"], **_heads(text, family)}] + (
        [{"kind": "mamba2", "layers": kinds["mamba"], **_mamba(text, dtype)}] if kinds["mamba"] else []
    )


def _state_type(text: Fields, key: str, dtype: str) -> str:
    """The type of the recurrent state: said, or the checkpoint's own."""
    said = text.text(key) if key else None
    if said is not None and said not in _STATE_TYPES:
        text.wrong(key, f"`{key}` is {said}, and states are {', '.join(_STATE_TYPES)}", "Get config.json from its publisher again.")
    return said if said in _STATE_TYPES else dtype if dtype in _STATE_TYPES else "bfloat16"
