"""A spec that is written from files plans like the shipped spec of the same model: cache tokens within 1 %.

The files have the public shape of the model's family. Where the shipped spec knows its bytes from a log alone, the weights are split
into 4 and 16 bits so that they make those bytes; Nemotron's are its real matrices, and its bytes come out by themselves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.checkpoint import checkpoint_facts, model_spec_text
from compiler.checkpoint.json_file import read_json
from compiler.checkpoint.network import read_network
from compiler.deploy.checkpoint import folder_checkpoint
from compiler.load.validate import validated
from compiler.load.yaml_text import parsed
from compiler.resolve import resolve_plan
from compiler.schema import ModelSpec
from tests.checkpoints import Stored, nemotron, shape, write_checkpoint
from tests.support import specset

PROFILES = {
    "nemotron-ada": "Nemotron-3-Nano-30B-A3B-NVFP4", "nemotron-a100": "Nemotron-3-Nano-30B-A3B-NVFP4", "ornith-2xa40": "Qwen3.5-35B-A3B", "ornith-fp8-2xa40": "Qwen3.5-35B-A3B",
    "ornith-ada": "Qwen3.5-35B-A3B", "qwen36-2x4090": "Qwen3.5-35B-A3B", "qwen3-coder-a40": "Qwen3-30B-A3B", "qwen3-coder-reap-a40": "Qwen3-30B-A3B",
    "kimi-linear-a40": "Kimi-Linear-48B-A3B", "qwen38-2xa40": "Qwen3.5-27B", "qwen38-blackwell": "Qwen3.5-27B", "swift-2x4090": "Qwen3.5-27B",
}  # fmt: skip
# What no file of a checkpoint says, or another file than those read here: a person adds it.
BY_HAND = ("context", "mtp", "parsers", "vision", "served_name", "checkpoint")
QUANTIZED = {
    "awq-int4": {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int", "symmetric": False}}}},
    "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
    "fp8": {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8, "type": "float"}}}},
}  # fmt: skip


def weighed(config: dict[str, Any], shipped: ModelSpec) -> list[Stored]:
    """Tensors that hold the text model's weights in the shipped spec's bytes, some packed to 4 or 8 bits, the others in bf16."""
    file, _ = read_json("config.json", json.dumps(config).encode())
    assert file is not None
    network = read_network(file)[0]
    assert network is not None
    vision, mtp = shipped.weights.vision or 0, shipped.weights.mtp or 0
    narrow, dtype, held = (1.0, "F8_E4M3", 1) if shipped.quantization.scheme == "fp8" else (0.5, "I32", 8)
    room = shipped.weights.loaded - vision
    packed = round((2 * network.parameters - room) / (2 - narrow)) // 8 * 8
    name = "model.layers.0.mlp.experts.0.down_proj.weight_packed" if network.experts else "model.layers.0.mlp.down_proj.weight_packed"
    found: list[Stored] = [
        (name, dtype, (packed // held,)),
        ("model.layers.0.self_attn.o_proj.weight", "BF16", ((room - round(packed * narrow)) // 2,)),
    ]
    return found + [(name, "BF16", (size // 2,)) for name, size in (("model.visual.merger.weight", vision), ("mtp.fc.weight", mtp)) if size]


def files_of(folder: Path, base: str) -> tuple[dict[str, Any], ModelSpec]:
    """Writes the folder, reads it, and gives the written spec as data with the shipped one."""
    shipped = specset(base).model
    config = shape(PROFILES[base])
    text = config.get("text_config", config)
    config["quantization_config"] = QUANTIZED[shipped.quantization.scheme]
    if shipped.quantization.kv_cache_scheme is None:
        config["quantization_config"] = {k: v for k, v in config["quantization_config"].items() if k != "kv_cache_scheme"}
    if text.get("num_experts") and shipped.architecture.experts:
        text["num_experts"] = shipped.architecture.experts
    tensors = nemotron(config) if base.startswith("nemotron") else weighed(config, shipped)
    files, problems = folder_checkpoint(write_checkpoint(folder, config, tensors), "org/name")
    facts, more = checkpoint_facts(files)
    assert facts is not None, [d.what for d in problems + more]
    written = model_spec_text(facts, "name")
    document, found = parsed("models/name.yaml", written)
    assert found == [] and validated(ModelSpec, "models/name.yaml", document.data)[1] == []
    return yaml.load(written, Loader=yaml.CSafeLoader), shipped


@pytest.mark.parametrize("base", PROFILES)
def test_the_written_spec_plans_like_the_shipped_one(tmp_path: Path, base: str) -> None:
    written, shipped = files_of(tmp_path / "files", base)
    changes = {key: value for key, value in written.items() if key not in BY_HAND}
    again = specset(base, {"model": {**{key: frozen(value) for key, value in changes.items()}}})
    assert again.model.architecture.kv == shipped.architecture.kv
    assert again.model.architecture.indivisible == shipped.architecture.indivisible
    assert again.model.weights.loaded == pytest.approx(shipped.weights.loaded, rel=0.001)
    ours, theirs = resolve_plan(again).memory, resolve_plan(specset(base)).memory
    assert ours.kv_tokens.mid == pytest.approx(theirs.kv_tokens.mid, rel=0.01)
    assert ours.verdict == theirs.verdict


def frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    return {key: frozen(inner) for key, inner in value.items()} if isinstance(value, dict) else value
