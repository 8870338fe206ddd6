"""A config.json from the facts of a model spec, laid over the public shape of its architecture.

What it can show: windows, runner, layers, attention backends, KV cache. What it cannot: anything that hangs on how the checkpoint is
quantized beyond what the spec says, so parameter bytes of such a config are told and never judged.
"""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import yaml

from compiler.schema.model import AttentionLayers, GatedDeltaLayers, LatentLayers, MambaLayers, ModelSpec

SHAPES = Path(__file__).with_name("shapes.yaml")
# Keys that name each layer's kind: a shape with another number of layers says nothing about the order of these.
_PATTERNS = ("layer_types", "hybrid_override_pattern", "linear_attn_config")
_MOE_EVERYWHERE = ("re:.*gate$", "re:.*shared_expert_gate$")
# Modules of each part of a network, as patterns of compressed-tensors' ignore list.
_MODULES = {
    "routed-experts": ("re:.*experts\\..*",),
    "shared-experts": ("re:.*shared_expert.*",),
    "attention": ("re:.*self_attn.*",),
    "linear-attention": ("re:.*linear_attn.*",),
    "mamba": ("re:.*mixer\\.(in|out)_proj$",),
    "dense-mlp": ("re:.*mlp\\.(gate|up|down|gate_up)_proj$",),
    "vision": ("re:.*visual.*",),
    "lm-head": ("re:.*lm_head$",),
    "mtp": ("re:.*mtp.*",),
}
_INT4_GROUP = 128


class NoFacts(Exception):
    """Why no config can be written from a spec."""


@functools.cache
def shapes() -> tuple[dict[str, Any], ...]:
    """The public shapes; each has `like` (a public checkpoint) and `config`."""
    return tuple(yaml.safe_load(SHAPES.read_text("utf-8")))


def shape_like(model: ModelSpec) -> dict[str, Any]:
    """The public shape of a model's architecture, the one with as many layers where several are known. Raises NoFacts."""
    known = [shape for shape in shapes() if model.architecture.name in shape["config"]["architectures"]]
    if not known:
        raise NoFacts(f"no public shape of {model.architecture.name} is known")
    return next((shape for shape in known if _text(shape["config"])["num_hidden_layers"] == model.architecture.layers), known[0])


def config_of(model: ModelSpec) -> tuple[dict[str, Any], str]:
    """A config.json for the model and the public checkpoint that it is like. Raises NoFacts, with what is missing."""
    shape = shape_like(model)
    config: dict[str, Any] = copy.deepcopy(shape["config"])
    text = _text(config)
    layers = model.architecture.layers
    if layers is not None and layers != text["num_hidden_layers"] and any(key in text for key in _PATTERNS):
        raise NoFacts(
            f"{model.architecture.name} with {layers} layers: which layer is of which kind is only known for {text['num_hidden_layers']}"
        )
    for key, value in _facts(model).items():
        if key in text and value is not None:
            text[key] = value
    if (quantization := quantization_of(model)) is not None:
        config["quantization_config"] = quantization
    return config, str(shape["like"])


def quantization_of(model: ModelSpec) -> dict[str, Any] | None:
    """The quantization that the spec's scheme, method and parts describe; None where they do not say enough."""
    spec = model.quantization
    stored: dict[str, str] = {part.part: part.weights for part in spec.parts}
    quantized = {"awq-int4": "int4", "fp8": "fp8", "nvfp4": "nvfp4"}.get(spec.scheme)
    if spec.method is None or quantized is None or "rest" not in stored:
        return None
    rest = stored["rest"]
    left_out = [part for part in _MODULES if stored.get(part, rest) != quantized]
    if spec.method.startswith("modelopt") and spec.scheme == "nvfp4":
        globs = [pattern for part in left_out for pattern in _globs(part)]
        scheme = {"kv_cache_scheme": {"num_bits": 8, "type": "float"}} if spec.kv_cache_scheme == "fp8" else {}
        return {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "config_groups": {},
            "group_size": 16,
            "ignore": ["lm_head", "*.gate", *globs],
            **scheme,
        }
    if spec.method != "compressed-tensors" or spec.scheme == "nvfp4":
        return None
    ignore = [*_MOE_EVERYWHERE, *(pattern for part in left_out for pattern in _MODULES[part])]
    return {"quant_method": "compressed-tensors", "quantization_status": "compressed", "ignore": ignore, **_scheme(spec.scheme)}


def _scheme(scheme: str) -> dict[str, Any]:
    if scheme == "fp8":
        weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False}
        activations = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
        return {
            "format": "float-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": activations}},
        }
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": _INT4_GROUP, "symmetric": True, "dynamic": False}
    return {"format": "pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def _globs(part: str) -> list[str]:
    names = {
        "routed-experts": "experts",
        "shared-experts": "shared_expert",
        "attention": "self_attn",
        "linear-attention": "linear_attn",
        "mamba": "mixer",
        "vision": "visual",
        "mtp": "mtp",
    }
    return [f"*{names[part]}*"] if part in names else []


def _text(config: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = config.get("text_config", config)
    return found


def _facts(model: ModelSpec) -> dict[str, Any]:
    """What the spec says, by the names that configs have for it; only names that the shape has are used."""
    a = model.architecture
    facts: dict[str, Any] = {
        "num_hidden_layers": a.layers, "hidden_size": a.hidden, "vocab_size": a.vocab, "num_attention_heads": a.attention_heads, "intermediate_size": a.intermediate,
        "max_position_embeddings": model.context.native, "model_max_length": model.context.native,
        "num_experts": a.experts or None, "n_routed_experts": a.experts or None, "num_experts_per_tok": a.experts_per_token or None,
        "num_experts_per_token": a.experts_per_token or None, "moe_intermediate_size": a.moe_intermediate or None,
    }  # fmt: skip
    for layers in a.kv:
        facts |= _layer_facts(layers)
    return facts


def _layer_facts(layers: Any) -> dict[str, Any]:
    if isinstance(layers, AttentionLayers):
        return {"num_key_value_heads": layers.kv_heads, "head_dim": layers.head_dim}
    if isinstance(layers, LatentLayers):
        return {"kv_lora_rank": layers.kv_lora_rank, "qk_rope_head_dim": layers.rope_dim}
    if isinstance(layers, GatedDeltaLayers):
        return {
            "linear_num_key_heads": layers.key_heads, "linear_num_value_heads": layers.value_heads, "linear_key_head_dim": layers.key_head_dim,
            "linear_value_head_dim": layers.value_head_dim, "linear_conv_kernel_dim": layers.conv_kernel, "mamba_ssm_dtype": layers.state_dtype,
        }  # fmt: skip
    if isinstance(layers, MambaLayers):
        return {
            "mamba_num_heads": layers.heads, "mamba_head_dim": layers.head_dim, "n_groups": layers.groups, "ssm_state_size": layers.state_dim, "conv_kernel": layers.conv_kernel,
            "chunk_size": layers.chunk, "mamba_ssm_cache_dtype": layers.state_dtype,
        }  # fmt: skip
    return {}
