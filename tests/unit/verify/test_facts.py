"""A config.json from the facts of a model spec."""

from __future__ import annotations

import pytest

from compiler.load import SpecStore
from compiler.schema.model import ModelSpec
from compiler.verify.facts import NoFacts, config_of, quantization_of, shapes
from tests.support import SPECS, specset

STORE = SpecStore([SPECS])


def model(name: str) -> ModelSpec:
    spec, problems = STORE.spec("model", name)
    assert isinstance(spec, ModelSpec), problems
    return spec


def test_facts_of_the_spec_stand_in_the_config() -> None:
    config, like = config_of(model("ornith-awq"))
    text = config["text_config"]
    assert like == "Qwen/Qwen3.5-35B-A3B"
    assert (text["num_experts"], text["hidden_size"], text["num_key_value_heads"], text["max_position_embeddings"]) == (
        256,
        2048,
        2,
        262144,
    )
    assert config["quantization_config"]["format"] == "pack-quantized"


def test_the_shape_with_as_many_layers_is_taken() -> None:
    assert config_of(model("qwen38-27b-awq"))[1] == "Qwen/Qwen3.5-27B"


def test_a_changed_spec_changes_the_config() -> None:
    changed = specset("qwen3-coder-a40", {"model": {"architecture.experts": 96, "context.native": 131072, "architecture.layers": 24}}).model
    config, _ = config_of(changed)
    assert (config["num_experts"], config["max_position_embeddings"], config["num_hidden_layers"]) == (96, 131072, 24)


def test_an_order_of_layers_is_never_guessed() -> None:
    with pytest.raises(NoFacts, match="only known for 40"):
        config_of(specset("ornith-ada", {"model": {"architecture.layers": 44}}).model)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(NoFacts, match="Qwen4Exp"):
        config_of(model("flash-next"))


def test_parts_that_are_not_quantized_are_left_out() -> None:
    found = quantization_of(model("ornith-awq"))
    assert found is not None
    assert "re:.*self_attn.*" in found["ignore"] and not any(
        "experts" in pattern and "shared" not in pattern for pattern in found["ignore"]
    )


def test_where_the_spec_says_too_little_nothing_is_said_about_quantization() -> None:
    assert quantization_of(model("swift-qwen38-27b")) is None
    assert quantization_of(model("qwen3-coder-awq")) is None
    assert quantization_of(model("tiny")) is None


def test_a_cache_type_that_the_checkpoint_imposes_is_in_it() -> None:
    found = quantization_of(model("nemotron-nvfp4"))
    assert found is not None and found["quant_algo"] == "NVFP4" and found["kv_cache_scheme"] == {"num_bits": 8, "type": "float"}


def test_no_shape_is_changed_by_its_use() -> None:
    before = repr(shapes())
    config_of(model("ornith-awq"))
    assert repr(shapes()) == before
