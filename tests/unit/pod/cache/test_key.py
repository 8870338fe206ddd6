"""The key of a compile cache: everything that changes compiled code changes it, and nothing else."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from pod.cache.key import compile_key, engine_levers, key_parts, runtime_facts, weights_facts
from pod.contract import CompileCache, Override

CACHE = CompileCache("owner/cache", "a" * 16, {"model": "owner/model@abc", "gpu": "2 x NVIDIA A40"})
GPUS = ["NVIDIA A40", "NVIDIA A40"]


def facts(
    driver: str | None = "580.65.06", gpus: list[str] = GPUS, levers: dict[str, str] | None = None, cpuinfo: Path = Path("/proc/cpuinfo")
) -> dict[str, str]:
    return runtime_facts("vllm", driver, gpus, levers or {}, cpuinfo)


def test_the_driver_s_major_counts_and_its_minor_does_not() -> None:
    assert facts("580.65.06") == facts("580.95.05")
    assert facts("580.65.06") != facts("570.195.03")
    assert facts()["driver"] == "580"


@pytest.mark.parametrize(
    "other",
    [
        facts("570.1"),
        facts(gpus=["NVIDIA A40"]),
        facts(gpus=["NVIDIA L40S", "NVIDIA A40"]),
        facts(levers={"VL_CTX": "131072"}),
        {**facts(), "torch": "9.9"},
        {**facts(), "python": "3.13"},
    ],
)
def test_each_fact_gives_another_key(other: dict[str, str]) -> None:
    assert compile_key(CACHE, other) != compile_key(CACHE, facts())
    assert compile_key(CACHE, facts()) == compile_key(dataclasses.replace(CACHE, repo="elsewhere/cache"), facts())
    assert compile_key(dataclasses.replace(CACHE, key="b" * 16), facts()) != compile_key(CACHE, facts())


def test_a_key_is_sixteen_hexadecimal_digits_and_does_not_depend_on_order() -> None:
    key = compile_key(CACHE, facts())
    assert len(key) == 16 and int(key, 16) >= 0
    assert compile_key(CACHE, dict(reversed(facts().items()))) == key


def test_facts_cannot_be_confused_with_each_other() -> None:
    assert compile_key(CACHE, {"a": "b\nc=d"}) != compile_key(CACHE, {"a": "b", "c": "d"})


def test_a_processor_counts_only_where_its_code_is_compiled(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path, flags in zip(paths, ("fpu avx2", "fpu avx2 avx512f"), strict=True):
        path.write_text(f"processor : 0\nflags\t\t: {flags}\nbugs : x\n")
    one, two = (facts(None, [], cpuinfo=path) for path in paths)
    assert one["driver"] == "none" and one["cpu"] != two["cpu"] and compile_key(CACHE, one) != compile_key(CACHE, two)
    assert facts(cpuinfo=paths[0]) == facts(cpuinfo=paths[1]) and "cpu" not in facts()
    assert facts(None, [], cpuinfo=tmp_path / "none")["cpu"]


def test_parts_tell_the_plan_s_from_the_pod_s() -> None:
    parts = key_parts(CACHE, facts())
    assert parts["gpu"] == "2 x NVIDIA A40" and parts["pod.gpus"] == "NVIDIA A40, NVIDIA A40" and parts["pod.driver"] == "580"


def test_where_the_weights_lie_counts_because_the_engine_counts_it() -> None:
    home = "/root/.cache/huggingface"
    plain = weights_facts(home, {})
    assert plain == {"hub cache": f"{home}/hub", "hub offline": "auto"} == weights_facts("/other", {"HF_HOME": home, "VL_HFOFFLINE": ""})
    for other in (weights_facts(home, {"HF_HOME": "/volume"}), weights_facts(home, {"VL_HFOFFLINE": "off"})):
        assert compile_key(CACHE, other) != compile_key(CACHE, plain)


def test_only_levers_in_force_that_reach_the_engine_count() -> None:
    levers = [Override("VL_CTX", ".*", "max_model_len", "--max-model-len", ""),
              Override("VL_CACHE", ".*", "runtime.compile_cache", None, ""),
              Override("VL_SEQS", ".*", "max_num_seqs", "--max-num-seqs", "")]  # fmt: skip
    assert engine_levers(levers, {"VL_CTX": "4096", "VL_CACHE": "on", "VL_SEQS": "", "VL_ELSE": "1"}) == {"VL_CTX": "4096"}
