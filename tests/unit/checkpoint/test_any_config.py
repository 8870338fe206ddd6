"""Whatever a config or an index holds, it is read into a valid spec or refused in words: nothing raises, and no spec that is written is invalid."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from compiler.checkpoint import CheckpointFiles, checkpoint_facts, model_spec_text
from compiler.checkpoint.tensors import Shard
from compiler.load.validate import validated
from compiler.load.yaml_text import parsed
from compiler.schema import ModelSpec
from tests.checkpoints import cases, header

ODD: list[Any] = [
    None, 0, -1, 1, 2, 1.5, float("inf"), True, False, "", "x", "\x1b[31m", [], [1], ["a"], {}, {"a": 1}, {"rope_type": "yarn", "factor": 4}, {"rope_type": "yarn", "factor": 1e30, "original_max_position_embeddings": 4},
    10**30, 10**18, "NaN", [[]], {"rope_type": ["x"]}, {"factor": "4"}, -0.5, {"quant_method": "awq"}, {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": []}}}},
]  # fmt: skip
CASES = cases()
EXAMPLES = 600


def damaged(draw: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = copy.deepcopy(draw.choice(CASES)["config"])
    for _ in range(draw.randint(1, 3)):
        at = config
        while at:
            key = draw.choice(list(at))
            if isinstance(at[key], dict) and at[key] and draw.random() < 0.7:
                at = at[key]
                continue
            kind = draw.random()
            if kind < 0.25:
                del at[key]
            elif kind < 0.35:
                at[f"x_{key}"] = at.pop(key)
            else:
                at[key] = copy.deepcopy(draw.choice(ODD))
            break
    return config


def files(config: dict[str, Any], **texts: bytes) -> CheckpointFiles:
    start, size = header([("model.layers.0.self_attn.o_proj.weight", "BF16", (10**9,)), ("mtp.fc.weight", "F32", (3, 3))])
    told = {"config.json": json.dumps(config).replace("Infinity", "1e999").encode(), **texts}
    return CheckpointFiles(
        "org/x",
        told,
        {"config.json": 1, "m.safetensors": len(start) + size},
        (Shard("m.safetensors", len(start) + size, start[8:]),),
        "org/x",
        "0" * 40,
    )


@pytest.mark.parametrize("seed", range(4))
def test_any_config(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.checkpoint.facts.NOTED", 1e99)  # So that the writer sees odd configs, too.
    draw = random.Random(seed)
    written = 0
    for _ in range(EXAMPLES):
        config = damaged(draw)
        facts, problems = checkpoint_facts(files(config))
        assert (facts is None) is any(d.is_error for d in problems), config
        assert all(d.what.isprintable() and d.why and d.fix for d in problems), config
        if facts is not None:
            document, found = parsed("models/x.yaml", model_spec_text(facts, "x"))
            assert found == [] and validated(ModelSpec, "models/x.yaml", document.data)[1] == [], config
            written += 1
    assert 20 < written < EXAMPLES - 20  # Both answers are met.


@pytest.mark.parametrize(
    "data",
    [
        *ODD,
        {"weight_map": {"a": None}},
        {"weight_map": {"model.layers.0.self_attn.o_proj.weight": "m.safetensors"}, "metadata": {"total_size": "5"}},
        {"weight_map": {"x": "../../etc/passwd"}},
    ],
)
def test_any_index(data: Any) -> None:
    text = json.dumps(data).replace("Infinity", "1e999").encode()
    facts, problems = checkpoint_facts(files(CASES[0]["config"], **{"model.safetensors.index.json": text}))
    assert facts is None and all(d.code in ("CKP001", "CKP006", "CKP007") for d in problems)


@pytest.mark.parametrize("entry", ODD)
@pytest.mark.parametrize("key", ["dtype", "shape", "data_offsets", None])
def test_any_header(key: str | None, entry: Any) -> None:
    tensor: Any = {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}
    text = json.dumps({"a": entry if key is None else tensor | {key: entry}}).replace("Infinity", "1e999").encode()
    shard = Shard("m.safetensors", len(text) + 10, text)
    facts, problems = checkpoint_facts(
        CheckpointFiles("x", {"config.json": json.dumps(CASES[0]["config"]).encode()}, {"m.safetensors": 1}, (shard,))
    )
    assert facts is None and all(d.code in ("CKP005", "CKP007") for d in problems)
