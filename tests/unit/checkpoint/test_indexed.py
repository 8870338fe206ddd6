"""Layers with an indexer: which of them keep keys, and what a config that contradicts itself is told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from compiler.checkpoint.json_file import read_json
from compiler.checkpoint.network import Network, read_network
from compiler.diagnostics import Diagnostic
from compiler.resolve.memory import CardMemory, MemoryInputs, Weights, cache_layout
from compiler.resolve.memory.inputs import MambaMode
from compiler.resolve.planner_inputs import planned_group
from compiler.schema.model import Layers
from tests.checkpoints import cases, shape

LAYERS: TypeAdapter[Layers] = TypeAdapter(Layers)


def read(name: str, **changes: Any) -> tuple[Network | None, list[Diagnostic]]:
    config = shape(name)
    config.update(changes)
    file, _ = read_json("config.json", json.dumps(config).encode())
    assert file is not None
    return read_network(file)


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({"index_topk_freq": 1}, 8),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 0}, 2),
        ({"index_topk_pattern": "FSSSFSSS"}, 2),
        ({"index_topk_pattern": ["F", "F", "S", "S", "S", "S", "S", "S"]}, 2),
        ({"indexer_types": ["full", "full", "full", *["shared"] * 5]}, 3),
    ],
)
def test_layers_that_read_an_earlier_choice_keep_no_keys(changes: dict[str, Any], own: int) -> None:
    found, problems = read("GLM with shared indexers", **changes)
    assert problems == [] and found is not None
    assert [group["layers"] for group in found.kv if group["kind"] == "indexer"] == [own]


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        ("DeepSeek-V4-Flash", {"compress_ratios": None}, "CKP002"),
        ("DeepSeek-V4-Flash", {"compress_ratios": [0, 4, 128]}, "CKP003"),
        ("DeepSeek-V4-Flash", {"compress_ratios": [8] * 43}, "CKP003"),
        ("DeepSeek-V4-Flash", {"layer_types": ["full_attention"] * 43}, "CKP003"),
        ("MiMo-V2-Flash, the first twelve layers", {"hybrid_layer_pattern": [0, 1]}, "CKP002"),
    ],
)
def test_a_list_that_does_not_name_each_layer_is_refused(name: str, changes: dict[str, Any], code: str) -> None:
    found, problems = read(name, **changes)
    assert found is None
    assert [problem.code for problem in problems] == [code]


def test_layer_types_say_the_ratios_too() -> None:
    kinds = (
        ["sliding_attention"] * 2 + ["compressed_sparse_attention", "heavily_compressed_attention"] * 20 + ["compressed_sparse_attention"]
    )
    found, problems = read("DeepSeek-V4-Flash", compress_ratios=None, layer_types=kinds)
    assert problems == [] and found is not None
    assert [(group["layers"], group.get("ratio", 0)) for group in found.kv] == [(2, 0), (21, 4), (20, 128)]


def test_a_kind_that_the_family_does_not_have_is_refused() -> None:
    found, problems = read("LFM2-1.2B", layer_types=["conv"] * 10 + ["sliding_attention"] * 6)
    assert found is None
    assert [problem.code for problem in problems] == ["CKP004"]


def test_a_source_of_deepseek_v41_needs_a_ratio() -> None:
    config = shape("DeepSeek-V4.1, a small shape")
    config["text_config"] = {**config["text_config"], "kv_source_layer_ids": [1, 4]}
    file, _ = read_json("config.json", json.dumps(config).encode())
    assert file is not None
    found, problems = read_network(file)
    assert found is None
    assert [problem.code for problem in problems] == ["CKP003"]


def test_what_is_not_counted_is_not_held_against_the_files() -> None:
    for name in ("DeepSeek-V4-Flash", "Gemma-4-E2B", "LFM2-1.2B"):
        found, _ = read(name)
        assert found is not None and found.parameters == 0 and not found.family.counted


@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_every_public_shape_has_a_cache_that_can_be_planned(case: dict[str, Any], release: str) -> None:
    file, _ = read_json("config.json", json.dumps(case["config"]).encode())
    assert file is not None
    found, _ = read_network(file)
    assert found is not None
    groups = tuple(planned_group(LAYERS.validate_python(group)) for group in found.kv)
    mode: MambaMode = "align" if any(group.state for group in groups) else "none"
    inputs = MemoryInputs(
        release, CardMemory(vram_mib=81_559), groups, Weights(), found.native, mamba_cache_mode=mode, max_num_batched_tokens=8192
    )
    layout = cache_layout(inputs)
    assert layout.block_size > 0 and 0 < layout.per_request(found.native) < layout.needed_bytes(found.native)
