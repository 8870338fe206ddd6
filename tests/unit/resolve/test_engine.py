"""The engine plan: one argv from layers and measured defaults, each value with its origin; values of a wrong type never end it."""

from __future__ import annotations

import pytest

from compiler.plan import from_json, to_json
from compiler.plan.core import Plan
from compiler.resolve import resolve_plan
from tests.support import REMOVE, Changes, specset


def plan(base: str = "nemotron-ada", changes: Changes | None = None) -> Plan:
    return resolve_plan(specset(base, changes))


def after(of: Plan, option: str) -> str | None:
    return of.engine.argv[of.engine.argv.index(option) + 1] if option in of.engine.argv else None


def test_argv_starts_with_the_model_and_has_each_setting_once() -> None:
    argv = plan().engine.argv
    assert argv[:3] == ("vllm", "serve", plan().model.repo)
    options = [word for word in argv if word.startswith("--")]
    assert len(options) == len(set(options))
    assert argv[3] == "--served-model-name"


def test_every_setting_has_a_decision_with_a_reason() -> None:
    decided = plan()
    routes = {d.route: d for d in decided.decisions}
    for setting in decided.engine.settings:
        assert routes[f"engine.{setting.name}"].reason
    for variable in decided.engine.env:
        assert routes[f"env.{variable.name}"].value == variable.value


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, "2"), ({"settings.data_parallel_size": 2}, "1"), ({"settings.pipeline_parallel_size": 2}, "1"), ({"settings.data_parallel_size": 64}, "1"), ({"settings.tensor_parallel_size": 1}, "1"),
])  # fmt: skip
def test_all_gpus_are_used_unless_told_otherwise(changes: dict[str, object], expected: str) -> None:
    assert after(plan("ornith-2xa40", {"profile": {"settings.tensor_parallel_size": REMOVE, **changes}}), "--tensor-parallel-size") == expected


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, 0.9), ({"settings.kv_cache_dtype": "turboquant_k8v4"}, 0.85), ({"speculation": {"method": "dspark", "tokens": 8, "draft": {"repo": "a/b"}}}, 0.9), ({"settings.gpu_memory_utilization": 0.5}, 0.5),
])  # fmt: skip
def test_utilization(changes: dict[str, object], expected: float) -> None:
    decided = plan("nemotron-ada", {"profile": {"settings.gpu_memory_utilization": REMOVE, **changes}})
    assert next(s.value for s in decided.engine.settings if s.name == "gpu_memory_utilization") == expected


def test_async_scheduling_only_without_speculation() -> None:
    off = plan("nemotron-ada", {"profile": {"settings.async_scheduling": REMOVE}})
    on = plan("nemotron-ada", {"profile": {"settings.async_scheduling": REMOVE, "speculation": {"method": "ngram", "reason": "A test."}}})
    assert "--async-scheduling" in off.engine.argv
    assert "--async-scheduling" not in on.engine.argv


def test_cpu_gets_no_gpu_defaults() -> None:
    decided = plan("tiny-cpu")
    assert after(decided, "--gpu-memory-utilization") is None
    assert "VLLM_USE_FLASHINFER_SAMPLER" not in {v.name for v in decided.engine.env}


def test_environment_layers() -> None:
    decided = plan("nemotron-ada", {"model": {"env.SHARED": "model"}, "hardware": {"env.SHARED": "hardware", "env.OWN": "hardware"}, "profile": {"env.SHARED": {"value": "profile", "reason": "A test."}}})
    env = {v.name: v for v in decided.engine.env}
    assert (env["SHARED"].value, env["SHARED"].why, env["OWN"].value) == ("profile", "A test.", "hardware")
    assert [v.name for v in decided.engine.env] == sorted(env)


def test_vision_limits() -> None:
    vision: Changes = {"model": {"vision": {"images_per_request": 3}}}
    assert after(plan("nemotron-ada"), "--limit-mm-per-prompt") is None
    assert after(plan("nemotron-ada", vision), "--limit-mm-per-prompt") == '{"image":3,"video":0}'
    assert after(plan("nemotron-ada", {**vision, "profile": {"images": {"per_request": 1, "videos_per_request": 1}}}), "--limit-mm-per-prompt") == '{"image":1,"video":1}'
    assert after(plan("nemotron-ada", {**vision, "profile": {"settings.language_model_only": True}}), "--limit-mm-per-prompt") is None


def test_engine_listens_inside_unless_there_is_no_bridge() -> None:
    assert (after(plan(), "--host"), after(plan(), "--port")) == ("127.0.0.1", "18081")
    bare = plan("nemotron-ada", {"profile": {"bridge.mode": "off", "bridge.port": 9000}})
    assert (after(bare, "--host"), after(bare, "--port")) == ("0.0.0.0", "9000")


def test_kv_store_connects_the_engine() -> None:
    assert after(plan("nemotron-ada", {"profile": {"kv_store": {"size_gib": 8, "chunk": 256}}}), "--kv-transfer-config") == '{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}'


LARGE: Changes = {"hardware": {"gpu.name": "NVIDIA H100 80GB HBM3", "gpu.vram_mib": 81559, "gpu.cuda_total": REMOVE}}
NULLS = {"settings.max_num_seqs": REMOVE, "settings.max_num_batched_tokens": REMOVE, "engine_args": {"max_num_batched_tokens": None, "max_num_seqs": None}}


@pytest.mark.parametrize(("hardware", "expected"), [({}, (2048, 256)), (LARGE, (8192, 1024))])
def test_null_leaves_a_number_to_the_engine_and_the_plan_counts_with_the_engines_own(hardware: Changes, expected: tuple[int, int]) -> None:
    left = plan("nemotron-ada", {"profile": NULLS, **hardware})
    written = {"settings.max_num_batched_tokens": expected[0], "settings.max_num_seqs": expected[1]}
    assert not {"--max-num-seqs", "--max-num-batched-tokens"} & set(left.engine.argv)
    assert (left.engine.max_num_batched_tokens, left.engine.max_num_seqs) == expected
    assert left.memory == plan("nemotron-ada", {"profile": written, **hardware}).memory


def test_engines_own_numbers_on_a_cpu_and_below_a_narrow_batch() -> None:
    cpu = plan("tiny-cpu", {"profile": NULLS})
    assert (cpu.engine.max_num_batched_tokens, cpu.engine.max_num_seqs) == (2048, 128)
    narrow = plan("nemotron-ada", {"profile": {**NULLS, "engine_args": {"max_num_batched_tokens": 128, "max_num_seqs": None}}})
    assert (narrow.engine.max_num_batched_tokens, narrow.engine.max_num_seqs) == (128, 128)


WRONG = ("x", "", "-1", -1, 0, 1.5, True, False, None, (), (1, "x"), {}, {"method": "mtp"}, {"method": (), "num_speculative_tokens": "x"}, {"num_speculative_tokens": -4}, "auto", 10**17)
NAMES = (
    "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization",
    "kv_cache_dtype", "kv_cache_memory_bytes", "block_size", "num_gpu_blocks_override", "speculative_config", "compilation_config", "hf_overrides", "mamba_cache_mode", "mamba_ssm_cache_dtype",
    "moe_backend", "enable_prefix_caching", "limit_mm_per_prompt", "served_model_name", "host", "port", "revision", "tokenizer", "tool_call_parser", "language_model_only", "enforce_eager", "nothing",
)  # fmt: skip


@pytest.mark.parametrize(("base", "name"), [("nemotron-ada", name) for name in NAMES] + [("qwen38-2xa40", name) for name in ("speculative_config", "max_model_len", "hf_overrides")])
def test_resolve_is_total_whatever_engine_args_hold(base: str, name: str) -> None:
    """Rules say what is wrong with the plan; so there must be one."""
    section = "settings" if specset(base).profile.settings.model_fields_set & {name} else None
    for value in WRONG:
        changes = {f"engine_args.{name}": {"value": value, "reason": "A test."}} | ({f"{section}.{name}": REMOVE} if section else {})
        decided = plan(base, {"profile": changes})
        assert from_json(Plan, to_json(decided)) == decided


@pytest.mark.parametrize("value", ["", "x", "0", "-1", "4.5", "٣", "9" * 30, " 4"])
def test_resolve_is_total_whatever_the_cpu_cache_variable_holds(value: str) -> None:
    four = plan("tiny-cpu", {"profile": {"env.VLLM_CPU_KVCACHE_SPACE": "4"}}).memory
    assert plan("tiny-cpu", {"profile": {"env.VLLM_CPU_KVCACHE_SPACE": value}}).memory == four


def test_unknown_cache_type_is_refused_with_its_name() -> None:
    memory = plan("nemotron-ada", {"profile": {"settings.kv_cache_dtype": "fp3"}}).memory
    assert memory.verdict == "refused"
    assert "fp3" in memory.reasons[0]
