"""What the memory planner is told follows the decided settings, and only settings of the right type."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from compiler.resolve.ledger import Ledger
from compiler.resolve.memory import LayerGroup, Lora, MemoryInputs, StateDims
from compiler.resolve.planner_inputs import effective_kv_dtype, planned_memory, planner_inputs
from compiler.resolve.settings import layered_settings
from compiler.resolve.speculation import decide_speculation
from compiler.units import GIB
from tests.support import REMOVE, ROOT, Changes, specset, subject


def inputs(base: str = "nemotron-ada", changes: Changes | None = None, env: dict[str, str] | None = None) -> MemoryInputs:
    specs = specset(base, changes)
    settings = layered_settings(specs, Ledger(specs))
    decide_speculation(settings, specs)
    return planner_inputs(specs, settings, env or {})


@pytest.mark.parametrize(("setting", "value", "field", "expected"), [
    ("max_num_seqs", 7, "max_num_seqs", 7), ("max_num_batched_tokens", 4096, "max_num_batched_tokens", 4096), ("gpu_memory_utilization", 0.5, "gpu_memory_utilization", 0.5),
    ("kv_cache_memory_bytes", "4GiB", "kv_cache_memory_bytes", 4 << 30), ("block_size", 32, "block_size", 32), ("tensor_parallel_size", 2, "tp", 2), ("pipeline_parallel_size", 3, "pp", 3),
    ("enforce_eager", True, "enforce_eager", True), ("async_scheduling", False, "async_scheduling", False),
    ("mamba_cache_mode", "all", "mamba_cache_mode", "all"), ("mamba_ssm_cache_dtype", "auto", "mamba_cache_dtype", None), ("disable_custom_all_reduce", True, "custom_all_reduce", False),
    ("max_model_len", "auto", "max_model_len", 1_048_576), ("max_model_len", 1000, "max_model_len", 1000),
])  # fmt: skip
def test_settings_reach_the_planner(setting: str, value: object, field: str, expected: object) -> None:
    assert getattr(inputs(changes={"profile": {f"settings.{setting}": value}}), field) == expected


@pytest.mark.parametrize(("base", "gib"), [("ornith-2xa40", 15.6), ("nemotron-ada", 15.4), ("qwen3-coder-a40", 14.0), ("qwen38-2xa40", 0.0)])
def test_experts_that_no_spec_counts_come_from_the_shape(base: str, gib: float) -> None:
    assert inputs(base).weights.experts / GIB == pytest.approx(gib, abs=0.1)
    assert inputs(base, {"model": {"weights.experts": "3GiB"}}).weights.experts == 3 * GIB
    assert inputs(base).weights.experts < inputs(base).weights.total


def test_a_block_of_states_reaches_the_planner() -> None:
    assert inputs(changes={"profile": {"engine_args.mamba_block_size": 400}}).mamba_block_size == 400
    assert inputs().mamba_block_size is None


@pytest.mark.parametrize(("chosen", "scheme", "expected"), [(None, None, "auto"), ("auto", "fp8", "fp8"), (None, "nvfp4", "nvfp4"), ("bfloat16", "fp8", "bfloat16")])
def test_cache_type(chosen: str | None, scheme: str | None, expected: str) -> None:
    model = specset("nemotron-ada", {"model": {"quantization.kv_cache_scheme": scheme or REMOVE}}).model
    assert effective_kv_dtype(model, chosen) == expected


@pytest.mark.parametrize(("env", "gib"), [({}, 4), ({"VLLM_CPU_KVCACHE_SPACE": "9"}, 9), ({"VLLM_CPU_KVCACHE_SPACE": "many"}, 4)])
def test_cpu_cache_comes_from_the_environment(env: dict[str, str], gib: int) -> None:
    assert inputs("tiny-cpu", env=env).kv_cache_memory_bytes == gib * GIB


@pytest.mark.parametrize(("env", "runner"), [({}, None), ({"VLLM_USE_V2_MODEL_RUNNER": "1"}, "V2"), ({"VLLM_USE_V2_MODEL_RUNNER": "0"}, "V1"), ({"VLLM_USE_V2_MODEL_RUNNER": "x"}, None)])
def test_runner_can_be_forced(env: dict[str, str], runner: str | None) -> None:
    assert inputs(env=env).runner == runner


def test_graph_mode() -> None:
    assert inputs().full_cudagraphs
    assert not inputs(changes={"profile": {"engine_args.compilation_config": {"value": {"cudagraph_mode": "PIECEWISE"}}}}).full_cudagraphs
    assert inputs(changes={"profile": {"engine_args.compilation_config": {"value": {"cudagraph_mode": "FULL_AND_PIECEWISE"}}}}).full_cudagraphs


def test_speculation_is_priced() -> None:
    assert inputs().speculation is None
    mtp = inputs("qwen38-2xa40").speculation
    assert mtp is not None
    assert (mtp.method, len(mtp.groups), mtp.weights_bytes > 0) == ("mtp", 1, True)
    draft = inputs(changes={"profile": {"speculation": {"method": "dspark", "tokens": 4, "draft": {"repo": "a/b", "loaded": "2GB"}}}}).speculation
    assert draft is not None
    assert (draft.tokens, draft.weights_bytes, draft.groups) == (4, 2_000_000_000, ())
    layers = [{"kind": "full", "layers": 5, "kv_heads": 8, "head_dim": 128}]
    drawn = inputs(changes={"profile": {"speculation": {"method": "eagle3", "tokens": 4, "draft": {"repo": "a/b", "kv": layers}}}}).speculation
    assert drawn is not None and [(g.kind, g.layers, g.kv_heads, g.head_dim_k) for g in drawn.groups] == [("full", 5, 8, 128)]


def test_measured_geometry() -> None:
    measured = {"bytes_per_token": 1000, "block": 64, "evidence": "nemotron-ada/nemotron-ada-control-solo"}
    geometry = inputs(changes={"model": {"architecture.kv": [], "architecture.measured_kv": measured}}).geometry
    assert (getattr(geometry, "bytes_per_token", None), getattr(geometry, "block", None)) == (1000, 64)


def test_plan_is_rounded_as_it_is_published() -> None:
    given = inputs()
    memory = planned_memory(given, max_model_len=65536)
    assert memory.max_model_len == 65536
    assert memory.weights_gib == round(memory.weights_gib, 3)


V1, MP = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}, {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"}
MULTI = {"kv_connector": "MultiConnector", "kv_role": "kv_both"}
OFF = "engine_args.disable_hybrid_kv_cache_manager"


@pytest.mark.parametrize(("config", "kept"), [
    (None, True), (V1, False), (json.dumps(V1), False), ({"kv_connector": "LMCacheConnectorV1Dynamic", "kv_role": "kv_both"}, False),
    ({"kv_connector": "MineConnector", "kv_connector_module_path": "mine"}, False), (MP, True), (json.dumps(MP), True), ({"kv_connector": 3}, False), ("{", True),
    (MULTI | {"kv_connector_extra_config": {"connectors": [MP, V1]}}, False), (MULTI | {"kv_connector_extra_config": {"connectors": [MP]}}, True),
    (MULTI | {"kv_connector_extra_config": {"connectors": [MULTI | {"kv_connector_extra_config": {"connectors": [V1]}}]}}, False), (MULTI, True),
])  # fmt: skip
def test_connectors_decide_on_the_hybrid_manager(config: object, kept: bool) -> None:
    changes: dict[str, object] = {} if config is None else {"engine_args.kv_transfer_config": {"value": config}}
    assert inputs(changes={"profile": changes}).hybrid_manager is kept
    assert inputs(changes={"profile": {**changes, OFF: {"value": True}}}).hybrid_manager is False
    assert inputs(changes={"profile": {**changes, OFF: {"value": False}}}).hybrid_manager is True


def test_hybrid_support_of_a_connector_depends_on_the_release() -> None:
    config = {"engine_args.kv_transfer_config": {"value": MP}}
    assert inputs(changes={"engine": {"release": "0.19.1"}, "profile": config}).hybrid_manager is False


def test_connector_without_hybrid_support_multiplies_the_cache_of_a_windowed_model() -> None:
    kv = [{"kind": "full", "layers": 5, "kv_heads": 2, "head_dim": 512}, {"kind": "sliding", "layers": 25, "kv_heads": 8, "head_dim": 256, "window": 1024}]
    model = {"model": {"architecture.kv": kv}}
    needed = {name: planned_memory(inputs(changes={**model, "profile": {"engine_args.kv_transfer_config": {"value": config}}}), max_model_len=262144).needed_gib for name, config in (("v1", V1), ("mp", MP))}
    assert needed["v1"] > 5 * needed["mp"]


def test_json_text_is_read_like_a_mapping() -> None:
    text = {"speculation": REMOVE, "engine_args.compilation_config": {"value": '{"cudagraph_mode":"PIECEWISE"}'}, "engine_args.speculative_config": {"value": '{"method":"ngram","num_speculative_tokens":9}'}}
    given = inputs(changes={"profile": text})
    assert given.speculation is not None
    assert (given.full_cudagraphs, given.speculation.tokens) == (False, 9)


@pytest.mark.parametrize(("value", "gib"), [(3, 3), (1.5, 1.5), (0, 0), (-1, 0), ("4", 0), (True, 0), (float("inf"), 0), (10**17, 0)])
def test_cpu_offload_leaves_the_gpu(value: object, gib: float) -> None:
    given = inputs(changes={"profile": {"engine_args.cpu_offload_gb": {"value": value}}})
    assert given.cpu_offload_bytes == gib * GIB
    kept, moved = planned_memory(inputs()), planned_memory(given)
    assert kept.weights_gib - moved.weights_gib == pytest.approx(gib, rel=0.01, abs=0.002)
    assert moved.kv_gib.mid - kept.kv_gib.mid == pytest.approx(gib, rel=0.01, abs=0.002)
    assert any("host memory" in note for note in moved.notes) is (gib > 0)


@pytest.mark.parametrize(("args", "expected"), [
    ({"max_loras": 4}, None), ({"enable_lora": False}, None), ({"enable_lora": True}, Lora(1, 16)),
    ({"enable_lora": True, "max_loras": 4, "max_lora_rank": 64, "fully_sharded_loras": True}, Lora(4, 64, True)), ({"enable_lora": True, "max_loras": "x"}, Lora(1, 16)),
])  # fmt: skip
def test_adapters(args: dict[str, object], expected: Lora | None) -> None:
    given = inputs(changes={"profile": {f"engine_args.{name}": {"value": value} for name, value in args.items()}})
    assert given.lora == expected
    assert any("LoRA" in note for note in planned_memory(given).notes) is (expected is not None)
    assert (planned_memory(given).kv_gib.mid < planned_memory(inputs()).kv_gib.mid) is (expected is not None)


def _shipped_starts() -> list[tuple[str, dict[str, Any]]]:
    files = sorted((ROOT / "specs" / "hardware").glob("*.yaml"))
    return [(file.stem, row) for file in files for row in yaml.safe_load(file.read_text("utf-8")).get("starts", [])]


@pytest.mark.parametrize(("hardware", "row"), _shipped_starts(), ids=[f"{h}:{r['evidence']}" for h, r in _shipped_starts()])
def test_a_shipped_start_is_its_record(hardware: str, row: dict[str, Any]) -> None:
    topic, _, name = row["evidence"].partition("/")
    records = yaml.safe_load((ROOT / "specs" / "evidence" / f"{topic}.yaml").read_text("utf-8"))["records"]
    record = next(r for r in records if r["id"] == name)
    figure = row.get("kv_gib") or row["kv_tokens"]
    assert figure in (record["value"], *record.get("columns", {}).values())
    assert record["verdict"] != "superseded"
    assert record["hardware"].split("-")[-1] in hardware
    stated = record.get("settings", {})
    assert {k: row["settings"][k] for k in row["settings"].keys() & stated.keys() if k != "kv_cache_dtype"} == {
        k: stated[k] for k in row["settings"].keys() & stated.keys() if k != "kv_cache_dtype"
    }


def test_a_start_of_another_model_or_with_an_unknown_draft_corrects_nothing() -> None:
    start = {"model": "ornith-nvfp4", "kv_gib": 20.0, "evidence": "ada-ornith-nvfp4/ornith-nvfp4-kv"}
    other = subject("nemotron-ada", {"hardware": {"starts": [start]}}).plan.memory
    assert other.calibration is None
    drafted = {**start, "model": "nemotron-nvfp4", "settings": {"speculative_config": {"method": "eagle3", "num_speculative_tokens": 3}}}
    assert subject("nemotron-ada", {"hardware": {"starts": [drafted]}}).plan.memory.calibration is None


@pytest.mark.parametrize("changes", [{"model": {"weights.loaded": "30GiB"}}, {"hardware": {"gpu.vram_mib": 24564}}])
def test_a_start_of_other_facts_corrects_nothing(changes: Changes) -> None:
    assert subject("nemotron-ada", changes).plan.memory.calibration is None


def test_a_plan_says_which_start_corrects_it_and_what_was_different_there() -> None:
    memory = subject("nemotron-ada").plan.memory
    assert memory.calibration is not None
    assert memory.calibration.evidence == "nemotron-ada/nemotron-ada-v79-fp16-solo"
    assert memory.calibration.differs == ("gpu_memory_utilization 0.93", "max_num_batched_tokens 4096")
    assert memory.kv_gib.low < memory.kv_gib.mid < memory.kv_gib.high


@pytest.mark.parametrize(("written", "expected"), [
    ({"kind": "compressed", "layers": 3, "head_dim": 512, "window": 128, "ratio": 4, "index_head_dim": 128}, LayerGroup("compressed", 3, head_dim_k=512, window=128, ratio=4, index_dim=128)),
    ({"kind": "compressed", "layers": 2, "head_dim": 512, "window": 128}, LayerGroup("compressed", 2, head_dim_k=512, window=128)),
    ({"kind": "indexer", "layers": 3, "head_dim": 128}, LayerGroup("indexer", 3, head_dim_k=128)),
    ({"kind": "indexer", "layers": 3, "head_dim": 128, "ratio": 4, "dtype": "bfloat16"}, LayerGroup("indexer", 3, head_dim_k=128, ratio=4, kv_dtype="bf16")),
    ({"kind": "mla-ds", "layers": 3, "kv_lora_rank": 512, "rope_dim": 64}, LayerGroup("mla_ds", 3, kv_lora_rank=512, rope_dim=64)),
    ({"kind": "conv", "layers": 1, "width": 10240, "conv_kernel": 10, "replicated": True}, LayerGroup("conv", 1, state=StateDims(1, 10240, 0, conv_kernel=10, is_replicated=True))),
])  # fmt: skip
def test_layers_reach_the_planner_by_kind(written: dict[str, Any], expected: LayerGroup) -> None:
    found = inputs(changes={"model": {"architecture.kv": [written]}}).geometry
    assert found == (expected,)


@pytest.mark.parametrize(("model_type", "release", "capability", "expected"), [
    ("glm_moe_dsa", "0.33.0", "10.0", "fp8"), ("glm_moe_dsa", "0.33.0", "9.0", "auto"), ("glm_moe_dsa", "0.27.1", "10.0", "auto"), ("deepseek_v32", "0.33.0", "10.0", "auto")])
def test_sparse_glm_narrows_its_cache_on_one_family_of_cards(model_type: str, release: str, capability: str, expected: str) -> None:
    changes: Changes = {
        "model": {"architecture.model_type": model_type, "quantization.kv_cache_scheme": REMOVE}, "engine": {"release": release},
        "hardware": {"gpu.compute_capability": capability}, "profile": {"settings.kv_cache_dtype": "auto"},
    }  # fmt: skip
    assert inputs(changes=changes).kv_dtype == expected
