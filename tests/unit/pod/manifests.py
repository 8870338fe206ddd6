"""A manifest made by hand, for tests of the runtime."""

from __future__ import annotations

import dataclasses
from typing import Any

from pod import contract


def example_manifest(**changes: Any) -> contract.Manifest:
    """A small, valid manifest whose engine is `vllm serve m`."""
    launch = contract.Launch(
        argv=("vllm", "serve", "m", "--host", "127.0.0.1", "--port", "18081", "--max-num-seqs", "64"), env={"B": "2", "A": "1"}, nccl_conf={},
        host="127.0.0.1", port=18081, health=contract.Health("/health", 200), fetch=(contract.Fetch("model", "o/m", "a" * 40, 26),),
        config_patches=(contract.ConfigPatch("config.json", ("a", "b"), ("c",), "why"),), script_patches=(),
    )  # fmt: skip
    engine = contract.Engine("p", ("m",), launch, 262144, "Qwen3ForCausalLM", True, False, False, False)
    supervisor = contract.Supervisor(
        watchdog=contract.Watchdog(30.0, 90.0, 24, 2, 3, 1800.0, 3, 2), warm_up=contract.WarmUp("/v1/completions", "one", 8, "two"),
        compile_caches={"p": contract.CompileCache("o/c", "k", {"tp": "2"})}, journal=None,
        follow=contract.Follow("o/r", "p/publication.json", 30.0, "idle", "KEY", False),
        overrides=(contract.Override("VL_SEQS", "[1-9][0-9]*", "max_num_seqs", "--max-num-seqs", "sequences"),
                   contract.Override("VL_EP", "(on|off)", "enable_expert_parallel", "--enable-expert-parallel", "experts"),
                   contract.Override("VL_BRIDGE", "(on|off)", "runtime.bridge", None, "bridge")),
        secrets=(contract.Secret("API_KEY", True, "the key"),), hf_home="/h", vllm_cache_root="/c", spend=contract.SpendLimits(None, None),
    )  # fmt: skip
    values: dict[str, Any] = {
        "schema_version": 1, "profile": "p", "compiler": "0.1.0", "engine": engine, "swap": None, "kv_store": None, "supervisor": supervisor,
        "pod": contract.Pod("i:1", "vllm-venv", True, "vllm", "0.27.1", "/opt/venv", 2, "NVIDIA A40", "8.6", 580, 200, ("8080/http",), ("disk",), None),
        "bridge": contract.Bridge("translate", "0.0.0.0", 8080, 15.0, 0.5, {"low": 1024, "max": None}, True, "API_KEY", False, 262144),
    }  # fmt: skip
    return contract.Manifest(**(values | changes))


def with_launch(manifest: contract.Manifest, **changes: Any) -> contract.Manifest:
    """The manifest with other fields in its engine's launch."""
    launch = dataclasses.replace(manifest.engine.launch, **changes)
    return dataclasses.replace(manifest, engine=dataclasses.replace(manifest.engine, launch=launch))
