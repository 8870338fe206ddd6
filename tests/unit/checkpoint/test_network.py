"""Public shapes are read as their publishers mean them; a file that leaves something out, or contradicts itself, is refused in words."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from compiler.checkpoint.facts import mtp_ignored
from compiler.checkpoint.json_file import read_json
from compiler.checkpoint.network import Network, read_network
from compiler.checkpoint.quantized import read_quantized
from compiler.diagnostics import Diagnostic
from tests.checkpoints import cases, shape

CASES = cases()


def read(config: dict[str, Any] | str) -> tuple[Network | None, list[Diagnostic]]:
    file, problems = read_json("config.json", (config if isinstance(config, str) else json.dumps(config, indent=1)).encode())
    return read_network(file) if file is not None else (None, problems)


def plain(group: dict[str, Any]) -> list[Any]:
    keys = {
        "mla": ("kv_lora_rank", "rope_dim"),
        "gdn": ("key_heads", "value_heads", "state_dtype"),
        "mamba2": ("heads", "head_dim", "state_dtype"),
        "kda": ("heads", "head_dim"),
        "mla-ds": ("kv_lora_rank", "rope_dim"),
        "indexer": ("head_dim", "ratio", "dtype"),
        "compressed": ("head_dim", "window", "ratio", "index_head_dim"),
        "conv": ("width", "conv_kernel", "replicated"),
    }
    rest = keys.get(group["kind"], ("kv_heads", "head_dim", "value_head_dim", "window"))
    return [group["kind"], group["layers"], *(group[key] for key in rest if key in group)]


def test_there_are_twenty_shapes_and_more() -> None:
    assert len(CASES) >= 25
    assert len({case["config"]["model_type"] for case in CASES}) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_public_shape(case: dict[str, Any]) -> None:
    found, problems = read(case["config"])
    assert problems == []
    assert found is not None
    assert [plain(group) for group in found.kv] == case["kv"]
    assert (found.native, found.mtp_layers, found.multimodal, found.tied) == (
        case["native"],
        case.get("mtp", 0),
        case.get("multimodal", False),
        case.get("tied", False),
    )
    if "billion" in case:
        assert found.parameters == pytest.approx(case["billion"] * 1e9, rel=0.0003)
    if "loaded_bytes" in case:
        assert 2 * found.parameters == pytest.approx(case["loaded_bytes"], rel=0.0001)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_quantization_of_a_public_shape(case: dict[str, Any]) -> None:
    file, _ = read_json("config.json", json.dumps(case["config"]).encode())
    assert file is not None
    found, problems = read_quantized(file, None)
    assert problems == []
    assert found is not None
    expected = case.get("scheme", ["none", "W16A16"])
    assert found.scheme == expected[0]
    if found.method != "modelopt":  # There the headers say it.
        assert found.activations == expected[1]
    assert found.kv_cache_scheme == case.get("kv_cache")
    network, _ = read_network(file)
    assert network is not None
    assert mtp_ignored(network, found) is case.get("mtp_ignored")


NEEDED = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "vocab_size",
    "num_key_value_heads",
    "head_dim",
    "model_type",
    "architectures",
    "torch_dtype",
    "max_position_embeddings",
)


@pytest.mark.parametrize("key", NEEDED)
def test_a_missing_key_is_named(key: str) -> None:
    config = shape("Qwen3-8B-FP8")
    del config[key]
    found, problems = read(config)
    assert found is None
    wanted = {"torch_dtype": "dtype"}.get(key, key)
    assert any(d.code == "CKP002" and f"no `{wanted}`" in d.what for d in problems)


def test_a_renamed_key_is_pointed_at() -> None:
    config = shape("Qwen3-8B-FP8")
    config["num_key_values_heads"] = config.pop("num_key_value_heads")
    found, problems = read(config)
    assert found is None
    assert [d.fix for d in problems if d.code == "CKP002"] == [
        "It has `num_key_values_heads`: where that is the same under another name, write the spec by hand."
    ]


@pytest.mark.parametrize("value", [-1, 0, 1.5, "36", True, [36], 10**30, {"a": 1}])
def test_a_value_that_is_no_count_is_refused_where_it_stands(value: object) -> None:
    config = shape("Qwen3-8B-FP8") | {"num_hidden_layers": value}
    found, problems = read(config)
    assert found is None
    hit = next(d for d in problems if d.code == "CKP003" and "num_hidden_layers" in d.what)
    assert hit.position is not None and '"num_hidden_layers"' in hit.position.text


@pytest.mark.parametrize(("text", "line", "words"), [
    ('{"a": 1,\n "hidden_size": NaN}', 2, "holds NaN"), ('{"a": -Infinity}', 1, "holds -Infinity"), ('{"a": 1,\n\n "b" 2}', 3, "is not JSON"), ("", 1, "is not JSON"), ("<html>", 1, "is not JSON"),
    ("[1]", None, "is not an object"), ("[" * 100_000, None, "nests too deeply"),
])  # fmt: skip
def test_what_is_no_json(text: str, line: int | None, words: str) -> None:
    found, problems = read(text)
    assert found is None
    assert [d.code for d in problems] == ["CKP001"]
    assert words in problems[0].what
    assert (problems[0].position.line if problems[0].position else None) == line


def test_bytes_that_are_no_text() -> None:
    assert "not UTF-8" in read_json("config.json", b"\xff\xfe{")[1][0].what


CONTRADICTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("gpt-oss-20b", {"num_hidden_layers": 25}, "`layer_types` lists 24 layers and `num_hidden_layers` says 25"),
    ("Qwen3-8B-FP8", {"num_key_value_heads": 7}, "7 key/value heads do not divide 32 query heads"),
    ("Llama-3.1-8B", {"hidden_size": 4100}, "32 heads do not divide a hidden width of 4100"),
    ("Kimi-Linear-48B-A3B", {"num_hidden_layers": 28}, "7 full and 20 linear layers are not the 28"),
    ("Nemotron-3-Nano-30B-A3B-NVFP4", {"hybrid_override_pattern": "MEM"}, "the pattern has 3 layers"),
    ("Qwen3-30B-A3B", {"num_experts_per_tok": 200}, "200 experts are used for a token and there are 128"),
    ("gpt-oss-20b", {"layer_types": ["hyena_attention"] * 24}, "names hyena_attention"),
]


@pytest.mark.parametrize(("name", "change", "words"), CONTRADICTIONS)
def test_contradictions(name: str, change: dict[str, Any], words: str) -> None:
    found, problems = read(shape(name) | change)
    assert found is None
    assert any(words in d.what and d.is_error for d in problems), [d.what for d in problems]


def test_an_unknown_type_is_refused_with_what_is_known() -> None:
    found, problems = read(shape("Llama-3.1-8B") | {"model_type": "rwkv7"})
    assert found is None
    assert [d.code for d in problems] == ["CKP004"]
    assert "rwkv7" in problems[0].what and "qwen3_5_moe" in problems[0].fix


QUANTIZATIONS: list[tuple[dict[str, Any], tuple[str, str] | None]] = [
    ({"quant_method": "awq", "bits": 8}, ("int8", "W8A16")), ({"quant_method": "awq", "bits": 3}, None), ({"quant_method": "hqq"}, None),
    ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, ("fp8", "W8A8")), ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, None),
    ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8, "type": "int"}}}}, ("int8", "W8A8")),
    ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int", "symmetric": True}}}}, ("gptq-int4", "W4A16")),
    ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8}},
      "b": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}, ("nvfp4", "W4A16")), ({"quant_method": "compressed-tensors", "config_groups": {}}, None),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, ("bitsandbytes-nf4", "W4A16")), ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}, None),
    ({"quant_method": "auto-round", "bits": 4, "packing_format": "auto_round:auto_gptq"}, ("gptq-int4", "W4A16")), ({"bits": 4}, None), ({"quant_method": 4}, None),
]  # fmt: skip


@pytest.mark.parametrize(("said", "expected"), QUANTIZATIONS, ids=lambda value: json.dumps(value)[:60])
def test_dialects_of_quantization(said: dict[str, Any], expected: tuple[str, str] | None) -> None:
    file, _ = read_json("config.json", json.dumps(shape("Llama-3.1-8B") | {"quantization_config": copy.deepcopy(said)}).encode())
    assert file is not None
    found, problems = read_quantized(file, None)
    assert ((found.scheme, found.activations) if found else None) == expected
    assert (problems == []) is (expected is not None)
    if said.get("kv_cache_quant_algo"):
        assert found is not None and found.kv_cache_scheme == "fp8"


def test_quantization_in_a_file_of_its_own() -> None:
    config, _ = read_json("config.json", json.dumps(shape("Llama-3.1-8B")).encode())
    beside, _ = read_json(
        "hf_quant_config.json",
        json.dumps({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}).encode(),
    )
    assert config is not None
    found, problems = read_quantized(config, beside)
    assert problems == [] and found is not None
    assert (found.scheme, found.kv_cache_scheme, found.ignored) == ("nvfp4", "fp8", ("lm_head",))
