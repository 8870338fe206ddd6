"""Test help: folders that look like a checkpoint. The tensors have the names, types and shapes of real ones; the files are sparse and hold no weights."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.support import ROOT

SIZES = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1, "I32": 4}
Stored = tuple[str, str, tuple[int, ...]]
"""Name, type, shape."""


def cases() -> list[dict[str, Any]]:
    """The public shapes, their layers spelled out."""
    found: list[dict[str, Any]] = yaml.load((ROOT / "tests/cases/checkpoints.yaml").read_text(), Loader=yaml.CSafeLoader)
    for case in found:
        text = case["config"].get("text_config", case["config"])
        if "period" in case:
            text["layer_types"] = case["period"] * (text["num_hidden_layers"] // len(case["period"]))
        if "listed" in case:
            text["layer_types"] = [kind for kind, count in case["listed"].items() for _ in range(count)]
    return found


def shape(name: str) -> dict[str, Any]:
    """A fresh copy of one public config."""
    return next(dict(case["config"]) for case in cases() if case["name"] == name)


def stored(name: str, rows: int, columns: int, scheme: str) -> Iterator[Stored]:
    """One matrix as a scheme stores it."""
    if scheme == "bf16":
        yield f"{name}.weight", "BF16", (rows, columns)
    elif scheme == "fp8":
        yield f"{name}.weight", "F8_E4M3", (rows, columns)
        yield f"{name}.weight_scale_inv", "F32", (math.ceil(rows / 128), math.ceil(columns / 128))
    elif scheme in ("nvfp4", "nvfp4-a4"):
        yield f"{name}.weight", "U8", (rows, columns // 2)
        yield f"{name}.weight_scale", "F8_E4M3", (rows, columns // 16)
        yield f"{name}.weight_scale_2", "F32", ()
        if scheme == "nvfp4-a4":
            yield f"{name}.input_scale", "F32", ()
    elif scheme in ("awq", "gptq"):
        yield f"{name}.qweight", "I32", (columns, rows // 8)
        yield f"{name}.qzeros", "I32", (columns // 128, rows // 8)
        yield f"{name}.scales", "F16", (columns // 128, rows)
    elif scheme == "packed":
        yield f"{name}.weight_packed", "I32", (rows, columns // 8)
        yield f"{name}.weight_scale", "BF16", (rows, columns // 32)
        yield f"{name}.weight_zero_point", "I32", (rows // 8, columns // 32)
        yield f"{name}.weight_shape", "I32", (2,)


def dense(config: dict[str, Any], scheme: str) -> list[Stored]:
    """A plain transformer: embeddings, attention and gated layers, an output unless it is tied."""
    hidden, inner, width = (
        config["hidden_size"],
        config["intermediate_size"],
        config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"],
    )
    query, key = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    found: list[Stored] = [("model.embed_tokens.weight", "BF16", (config["vocab_size"], hidden)), ("model.norm.weight", "BF16", (hidden,))]
    if not config.get("tie_word_embeddings"):
        found.append(("lm_head.weight", "BF16", (config["vocab_size"], hidden)))
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        shapes = {
            "self_attn.q_proj": (query, hidden),
            "self_attn.k_proj": (key, hidden),
            "self_attn.v_proj": (key, hidden),
            "self_attn.o_proj": (hidden, query),
        }
        if "num_experts" in config:
            found += experts(at, config, scheme)
        else:
            shapes |= {"mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
        found += [tensor for name, (rows, columns) in shapes.items() for tensor in stored(f"{at}.{name}", rows, columns, scheme)]
        found.append((f"{at}.input_layernorm.weight", "BF16", (hidden,)))
    return found


def experts(at: str, config: dict[str, Any], scheme: str) -> list[Stored]:
    """The routed experts and the router of one layer; experts as one matrix each, which has the same bytes as many."""
    count, hidden, inner = config["num_experts"], config["hidden_size"], config["moe_intermediate_size"]
    found: list[Stored] = [(f"{at}.mlp.gate.weight", "BF16", (count, hidden))]
    for name, (rows, columns) in {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}.items():
        found += stored(f"{at}.mlp.experts.0.{name}", rows * count, columns, scheme)
    return found


def nemotron(config: dict[str, Any]) -> list[Stored]:
    """Nemotron-H in NVFP4: experts, attention and Mamba projections in 4 bits, the rest in bf16."""
    hidden, vocab, width = config["hidden_size"], config["vocab_size"], config["mamba_num_heads"] * config["mamba_head_dim"]
    states = 2 * config["n_groups"] * config["ssm_state_size"]
    found: list[Stored] = [
        ("backbone.embeddings.weight", "BF16", (vocab, hidden)),
        ("lm_head.weight", "BF16", (vocab, hidden)),
        ("backbone.norm_f.weight", "BF16", (hidden,)),
    ]
    for layer, kind in enumerate(config["hybrid_override_pattern"]):
        at = f"backbone.layers.{layer}.mixer"
        found.append((f"backbone.layers.{layer}.norm.weight", "BF16", (hidden,)))
        if kind == "M":
            found += [
                *stored(f"{at}.in_proj", 2 * width + states + config["mamba_num_heads"], hidden, "nvfp4"),
                *stored(f"{at}.out_proj", hidden, width, "nvfp4"),
            ]
            found += [
                (f"{at}.conv1d.weight", "BF16", (width + states, 1, config["conv_kernel"])),
                (f"{at}.A_log", "F32", (config["mamba_num_heads"],)),
            ]
        elif kind == "*":
            query, key = config["num_attention_heads"] * config["head_dim"], config["num_key_value_heads"] * config["head_dim"]
            for name, (rows, columns) in {
                "q_proj": (query, hidden),
                "k_proj": (key, hidden),
                "v_proj": (key, hidden),
                "o_proj": (hidden, query),
            }.items():
                found += stored(f"{at}.{name}", rows, columns, "nvfp4")
        else:
            inner, shared, count = (
                config["moe_intermediate_size"],
                config["moe_shared_expert_intermediate_size"],
                config["n_routed_experts"],
            )
            found.append((f"{at}.gate.weight", "BF16", (count, hidden)))
            found += [
                *stored(f"{at}.experts.0.up_proj", inner * count, hidden, "nvfp4"),
                *stored(f"{at}.experts.0.down_proj", hidden * count, inner, "nvfp4"),
            ]
            found += [
                *stored(f"{at}.shared_experts.up_proj", shared, hidden, "nvfp4"),
                *stored(f"{at}.shared_experts.down_proj", hidden, shared, "nvfp4"),
            ]
    return found


def header(tensors: Iterable[Stored]) -> tuple[bytes, int]:
    """The header of a file with these tensors, and the bytes that follow it."""
    at, entries = 0, {}
    for name, dtype, dims in tensors:
        size = math.prod(dims) * SIZES[dtype]
        entries[name] = {"dtype": dtype, "shape": list(dims), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode()
    return len(text).to_bytes(8, "little") + text, at


def write_shard(path: Path, tensors: Iterable[Stored]) -> None:
    """A sparse file with a true header."""
    start, size = header(tensors)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + size)


def write_checkpoint(folder: Path, config: dict[str, Any], tensors: list[Stored], shards: int = 1, **texts: str) -> Path:
    """A folder with config.json, the weights in so many files (with an index where there are several), and further files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text)
    if shards == 1:
        write_shard(folder / "model.safetensors", tensors)
        return folder
    weight_map: dict[str, str] = {}
    for number in range(shards):
        name, part = f"model-{number + 1:05d}-of-{shards:05d}.safetensors", tensors[number::shards]
        write_shard(folder / name, part)
        weight_map |= {tensor[0]: name for tensor in part}
    total = header(tensors)[1]
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}))
    return folder


SMALL = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "quantization_config": None,
}
"""A dense config cut down, so that its whole checkpoint takes a few megabytes; None takes a key out."""


def small(**changes: Any) -> dict[str, Any]:
    """The small config with changes, without the keys that are None."""
    return {key: value for key, value in (shape("Qwen3-8B-FP8") | SMALL | changes).items() if value is not None}
