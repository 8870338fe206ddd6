"""Files of a checkpoint against each other: what fits gives a spec, what does not is said in one clear finding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.checkpoint import CheckpointFacts, checkpoint_facts, model_spec_text
from compiler.checkpoint.facts import thinks, tool_format
from compiler.checkpoint.parts import part_of
from compiler.deploy.checkpoint import FIRST_SPAN, folder_checkpoint
from compiler.diagnostics import Diagnostic
from compiler.load.validate import validated
from compiler.load.yaml_text import parsed
from compiler.schema import ModelSpec
from tests.checkpoints import Stored, dense, nemotron, shape, small, write_checkpoint, write_shard

INDEX = "model.safetensors.index.json"


def read(folder: Path, repo: str | None = "org/name") -> tuple[CheckpointFacts | None, list[Diagnostic]]:
    files, problems = folder_checkpoint(folder, repo)
    facts, more = checkpoint_facts(files)
    return facts, problems + more


def spec(facts: CheckpointFacts) -> dict[str, Any]:
    text = model_spec_text(facts, "name")
    document, found = parsed("models/name.yaml", text)
    assert found == []
    assert validated(ModelSpec, "models/name.yaml", document.data)[1] == []
    data: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return data


def test_a_whole_checkpoint(tmp_path: Path) -> None:
    template = "{% if tools %}<tool_call>\n<function=example>{% endif %}<think>"
    facts, problems = read(
        write_checkpoint(
            tmp_path,
            small(),
            dense(small(), "bf16"),
            3,
            generation_config__json='{"temperature": 0.6, "top_k": 20}',
            chat_template__jinja=template,
        )
    )
    assert problems == [] and facts is not None
    found = spec(facts)
    weights = 2 * 1024 * 256 + 2 * (256 * (256 + 2 * 128 + 256) + 3 * 256 * 512) + 256 + 2 * 256
    assert found["weights"]["loaded"] == 2 * weights
    assert found["checkpoint"]["download"] == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert found["parsers"] == {"tool_format": "qwen-xml"}
    assert found["architecture"]["reasoning"] is True
    assert found["notes"] == ["generation_config.json sets temperature 0.6, top_k 20; the engine takes that over as its default."]
    assert "mtp" not in found and "vision" not in found and "yarn" not in found["context"]


def test_nemotron_has_the_bytes_that_the_engine_counted(tmp_path: Path) -> None:
    config = shape("Nemotron-3-Nano-30B-A3B-NVFP4")
    facts, _ = read(write_checkpoint(tmp_path, config, nemotron(config), 4))
    assert facts is not None
    found = spec(facts)
    assert found["weights"]["loaded"] == pytest.approx(18_804_142_512, rel=0.001)  # Parameter bytes of this shape in vLLM 0.27.1.
    assert found["quantization"]["activations"] == "W4A16"
    parts = {row["part"]: row for row in found["quantization"]["parts"]}
    assert (parts["routed-experts"]["weights"], parts["mamba"]["weights"], parts["lm-head"]["weights"]) == ("nvfp4", "nvfp4", "bf16")
    assert parts["routed-experts"]["bytes_read_per_token"] == found["weights"]["experts"] * 6 // 128
    assert "bytes_read_per_token" not in parts["embeddings"]


def test_input_scales_tell_four_bit_activations(tmp_path: Path) -> None:
    config = small(quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"})
    for scheme, expected in (("nvfp4", "W4A16"), ("nvfp4-a4", "W4A4")):
        facts, problems = read(write_checkpoint(tmp_path / scheme, config, dense(config, scheme)))
        assert problems == [] and facts is not None
        assert spec(facts)["quantization"]["activations"] == expected


@pytest.mark.parametrize(("method", "scheme", "expected"), [
    ({"quant_method": "fp8"}, "fp8", "fp8"), ({"quant_method": "awq", "bits": 4}, "awq", "int4"), ({"quant_method": "gptq", "bits": 4}, "gptq", "int4"),
    ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}}}, "packed", "int4"),
])  # fmt: skip
def test_packed_weights_are_counted_as_weights(tmp_path: Path, method: dict[str, Any], scheme: str, expected: str) -> None:
    config = small(quantization_config=method)
    facts, problems = read(write_checkpoint(tmp_path, config, dense(config, scheme)))
    assert problems == [] and facts is not None
    assert facts.parts.text_weights == pytest.approx(facts.network.parameters, rel=0.002)
    assert facts.parts.parts["dense-mlp"].format == expected


def test_a_tied_head_that_is_stored_all_the_same(tmp_path: Path) -> None:
    tied = small(tie_word_embeddings=True)
    facts, _ = read(write_checkpoint(tmp_path / "a", tied, dense(tied, "bf16")))
    stored, problems = read(write_checkpoint(tmp_path / "b", tied, [*dense(tied, "bf16"), ("lm_head.weight", "BF16", (1024, 256))]))
    assert facts is not None and stored is not None and problems == []
    assert stored.parts.total == facts.parts.total
    assert "left out" in spec(stored)["weights"]["source"]
    assert spec(facts)["quantization"]["parts"][-2]["bytes_read_per_token"] == 2 * 1024 * 256


def test_float32_files_load_as_the_config_says(tmp_path: Path) -> None:
    wide = [(name, "F32", dims) for name, _, dims in dense(small(), "bf16")]
    facts, problems = read(write_checkpoint(tmp_path, small(), wide))
    assert facts is not None and problems == []
    assert "float32 count as bfloat16" in spec(facts)["weights"]["source"]
    assert facts.parts.total == pytest.approx(2 * facts.network.parameters, rel=0.01)


@pytest.mark.parametrize(("method", "block"), [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, [128, 128]),
    ({"quant_method": "fp8"}, None),
    ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}, "input_activations": {"num_bits": 8}}}}, [128, 128]),
    ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "input_activations": {"num_bits": 8}}}}, None),
])  # fmt: skip
def test_the_block_that_shares_a_scale(tmp_path: Path, method: dict[str, Any], block: list[int] | None) -> None:
    config = small(quantization_config=method)
    facts, problems = read(write_checkpoint(tmp_path, config, dense(config, "fp8")))
    assert problems == [] and facts is not None
    assert spec(facts)["quantization"].get("block") == block


def mtp_shape() -> dict[str, Any]:
    config = json.loads(json.dumps(shape("Qwen3.5-35B-A3B")))
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "ignore": ["re:.*mtp.*"],
        "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "symmetric": False}}},
    }
    return config


def test_a_draft_head_and_a_tower(tmp_path: Path) -> None:
    weights = 34_661_000_000 // 8
    tensors: list[Stored] = [
        ("model.language_model.layers.0.mlp.experts.0.down_proj.weight_packed", "I32", (weights,)),
        ("model.visual.blocks.0.attn.qkv.weight", "BF16", (450, 1000)),
    ]
    facts, problems = read(
        write_checkpoint(
            tmp_path / "a",
            mtp_shape(),
            [*tensors, ("mtp.layers.0.mlp.experts.0.down_proj.weight", "BF16", (100, 1000)), ("mtp.fc.weight", "BF16", (10, 10))],
        )
    )
    assert problems == [] and facts is not None
    found = spec(facts)
    assert found["mtp"] == {"layers": 1, "weights": "bf16", "tensors": 2}
    assert (found["weights"]["mtp"], found["weights"]["vision"], found["weights"]["loaded"]) == (200_200, 900_000, weights * 4 + 900_000)
    assert found["quantization"]["mtp_in_ignore_list"] is True
    assert found["architecture"]["multimodal"] is True
    facts, _ = read(write_checkpoint(tmp_path / "b", mtp_shape(), tensors))
    assert facts is not None and "mtp" not in spec(facts)
    assert any("no tensor of them is there" in sentence for _, sentence in facts.open)


def test_a_folder_without_a_repository_is_mounted(tmp_path: Path) -> None:
    facts, _ = read(write_checkpoint(tmp_path, small(), dense(small(), "bf16")), None)
    assert facts is not None
    assert spec(facts)["checkpoint"]["folder"] == "/models/name"


def test_what_a_downloader_leaves_is_not_of_the_checkpoint(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, small(), dense(small(), "bf16"))
    before, _ = read(tmp_path)
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    (tmp_path / ".cache/huggingface/x.safetensors").write_bytes(b"x" * 1000)
    after, problems = read(tmp_path)
    assert before is not None and after is not None and problems == []
    assert after.download == before.download


def test_a_header_longer_than_the_first_span(tmp_path: Path) -> None:
    many: list[Stored] = [(f"model.layers.{n % 2}.self_attn.{'x' * 200}{n}.weight", "BF16", (1,)) for n in range(1500)]
    facts, problems = read(write_checkpoint(tmp_path, small(), [*dense(small(), "bf16"), *many]))
    assert (tmp_path / "model.safetensors").stat().st_size > FIRST_SPAN
    assert facts is not None and problems == []


Damage = Callable[[Path], object]


def change_index(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads((folder / INDEX).read_text())
    change(data)
    (folder / INDEX).write_text(json.dumps(data))


def broken_header(folder: Path, text: bytes) -> None:
    name = folder / "model-00001-of-00002.safetensors"
    name.write_bytes(len(text).to_bytes(8, "little") + text)


DAMAGED: dict[str, tuple[Damage, str, str]] = {
    "a shard is missing": (lambda f: (f / "model-00002-of-00002.safetensors").unlink(), "CKP006", "names model-00002-of-00002.safetensors, which is not there"),
    "a tensor is missing": (lambda f: change_index(f, lambda d: d["weight_map"].update({"ghost": "model-00001-of-00002.safetensors"})), "CKP006", "promises 1 tensors in model-00001-of-00002.safetensors that it does not hold, ghost first"),
    "no map": (lambda f: change_index(f, lambda d: d.pop("weight_map")), "CKP006", "has no `weight_map`"),
    "a map of numbers": (lambda f: change_index(f, lambda d: d["weight_map"].update({"x": 7})), "CKP006", "has no `weight_map`"),
    "index of NaN": (lambda f: (f / INDEX).write_text('{"metadata": {"total_size": NaN}}'), "CKP001", "holds NaN"),
    "a shard is cut": (lambda f: (f / "model-00001-of-00002.safetensors").open("r+b").truncate(9000), "CKP005", "promises"),
    "an empty shard": (lambda f: (f / "model-00001-of-00002.safetensors").write_bytes(b""), "CKP005", "is no safetensors file"),
    "a pointer": (lambda f: (f / "model-00001-of-00002.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "CKP005", "a pointer of Git LFS"),
    "no JSON in a header": (lambda f: broken_header(f, b"{]"), "CKP005", "is not JSON"),
    "an odd dtype": (lambda f: broken_header(f, b'{"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 1]}}'), "CKP005", 'a dtype "X9"'),
    "negative shape": (lambda f: broken_header(f, b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}'), "CKP005", "no whole numbers"),
    "wrong bytes": (lambda f: broken_header(f, b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}'), "CKP005", "4 bytes for 8"),
    "an overlap": (lambda f: broken_header(f, b'{"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}'), "CKP005", "a gap or an overlap before `b`"),
    "no config": (lambda f: (f / "config.json").unlink(), "CKP001", "has no config.json"),
    "config of another model": (lambda f: (f / "config.json").write_text(json.dumps(small(num_hidden_layers=4))), "CKP007", "% apart"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_what_does_not_fit_is_one_clear_error(tmp_path: Path, name: str) -> None:
    damage, code, words = DAMAGED[name]
    write_checkpoint(tmp_path, small(), dense(small(), "bf16"), 2)
    damage(tmp_path)
    facts, problems = read(tmp_path)
    assert facts is None
    hits = [d for d in problems if d.is_error]
    assert any(d.code == code and words in d.what for d in hits), [f"{d.code} {d.what}" for d in hits]
    assert len(hits) <= 2 and all(d.why and d.fix for d in hits)


def test_no_weights_and_weights_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(small()))
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    facts, problems = read(tmp_path)
    assert facts is None and [d.code for d in problems] == ["CKP005"]
    assert "no safetensors files" in problems[0].what


def test_tensors_in_two_files(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, small(), dense(small(), "bf16"))
    write_shard(tmp_path / "model-again.safetensors", [("model.norm.weight", "BF16", (256,))])
    facts, problems = read(tmp_path)
    assert facts is None and "1 tensors stand in two files, model.norm.weight first" in [d.what for d in problems]


def test_a_total_that_is_a_little_off_and_tensors_that_the_index_leaves_out_are_warnings(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "a", small(), dense(small(), "bf16"), 2)
    change_index(tmp_path / "a", lambda d: d["metadata"].update(total_size=5))
    facts, problems = read(tmp_path / "a")
    assert facts is not None and [(d.code, d.severity.value) for d in problems] == [("CKP006", "warning")]
    write_checkpoint(tmp_path / "b", small(), dense(small(), "bf16"), 2)
    change_index(tmp_path / "b", lambda d: d["weight_map"].pop("model.norm.weight"))
    facts, problems = read(tmp_path / "b")
    assert facts is not None and "leaves out 1 tensors" in problems[0].what


def test_a_second_copy_of_the_weights_is_not_counted(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, small(), dense(small(), "bf16"))
    before, _ = read(tmp_path)
    write_shard(tmp_path / "consolidated.safetensors", [("layers.0.x", "BF16", (1000, 1000))])
    after, problems = read(tmp_path)
    assert before is not None and after is not None and problems == []
    assert after.parts.total == before.parts.total


@pytest.mark.parametrize(("template", "kind", "thought"), [
    (None, None, False), ("<|tool_calls_section_begin|>", "kimi-sections", False), ("<function=x></think>", "qwen-xml", True),
    ('<tool_call>{"name": 1}', "hermes-json", False), ("[INST]", "other", False),
])  # fmt: skip
def test_markup_of_a_template(template: str | None, kind: str | None, thought: bool) -> None:
    assert (tool_format(template), thinks(template)) == (kind, thought)


def test_a_template_inside_the_tokenizers_config(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "<function=a>"}]
    for said, expected in (("<function=a>", "qwen-xml"), (named, "qwen-xml"), (["x"], None)):
        folder = tmp_path / str(len(str(said)))
        facts, _ = read(
            write_checkpoint(folder, small(), dense(small(), "bf16"), tokenizer_config__json=json.dumps({"chat_template": said}))
        )
        assert facts is not None and tool_format(facts.template) == expected


@pytest.mark.parametrize(("name", "part"), [
    ("model.layers.3.self_attn.q_proj.weight", "attention"), ("model.layers.61.self_attn.q_proj.weight", "mtp"), ("mtp.layers.0.mlp.experts.5.up_proj.weight", "mtp"),
    ("model.language_model.layers.3.linear_attn.in_proj_qkvz.weight", "linear-attention"), ("model.visual.blocks.70.attn.qkv.weight", "vision"), ("vision_tower.layers.80.x.weight", "vision"),
    ("backbone.layers.3.mixer.experts.7.up_proj.weight", "routed-experts"), ("backbone.layers.3.mixer.shared_experts.up_proj.weight", "shared-experts"),
    ("backbone.layers.3.mixer.in_proj.weight", "mamba"), ("backbone.layers.3.mixer.q_proj.weight", "attention"), ("backbone.embeddings.weight", "embeddings"),
    ("lm_head.weight", "lm-head"), ("model.layers.3.mlp.gate.weight", "rest"), ("model.layers.3.mlp.gate_proj.weight", "dense-mlp"), ("model.layers.3.mlp.experts.gate_up_proj_blocks", "routed-experts"),
])  # fmt: skip
def test_part_of_a_tensor(name: str, part: str) -> None:
    assert part_of(name, 61) == part
