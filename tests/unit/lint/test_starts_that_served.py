"""False alarms are faults: no rule raises an error about a start-up that was logged as serving."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from compiler.lint.rule import Subject
from compiler.lint.runner import findings
from tests.support import REMOVE, ROOT, subject

DATA = yaml.safe_load((ROOT / "tests" / "cases" / "memory_planner.yaml").read_text("utf-8"))
# Served at first, and its long prompts then ran out of memory: MEM004 is about them.
DIED_LATER = ("e-ornith-a40-tq",)
# Specs speak of NVIDIA's cards alone.
OF_OTHERS = ("u-gemma3-mi300x", "u-gemma4-e2b-mi300x")
SERVED = [case for case in DATA["cases"] if case["outcome"] == "started" and case["seen"] and case["id"] not in DIED_LATER + OF_OTHERS]
BASE = "qwen3-coder-a40"
# Capability and architecture of the cards that the records name; a record without a card is asked on an H200.
CARDS = {
    "3090": ("8.6", "ampere"), "3050": ("8.6", "ampere"), "6 GB": ("8.6", "ampere"), "24 GB": ("8.9", "ada"), "A100": ("8.0", "ampere"), "GA100": ("8.0", "ampere"),
    "A40": ("8.6", "ampere"), "Ada": ("8.9", "ada"), "H100": ("9.0", "hopper"), "H200": ("9.0", "hopper"), "5090": ("12.0", "blackwell"),
    "PRO 6000": ("12.0", "blackwell"), "GB10": ("12.1", "blackwell"), "5060": ("12.0", "blackwell"), "A5000": ("8.6", "ampere"), "L40S": ("8.9", "ada"),
}  # fmt: skip
H200: dict[str, Any] = {"cuda_bytes": 150109880320, "name": "H200"}
# Its source names the compute capability alone.
GIVEN: dict[str, dict[str, Any]] = {
    "h-q36-27b-nvfp4kv-1m": {"smi_mib": 97887, "name": "RTX PRO 6000"}, "u-q27-nvfp4-5090": {"smi_mib": 32607, "name": "RTX 5090"},
}  # fmt: skip
USUAL_BATCH = 8192  # where a record does not say: whatever it was, the engine took it
MIB = 1 << 20


def _layers(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The planner's groups as a model spec writes them."""
    found = []
    for group in groups:
        kind, layers, state = group["kind"], group["layers"], group.get("state", {})
        if kind in ("full", "sliding"):
            found.append({"kind": kind, "layers": layers, "kv_heads": group["kv_heads"], "head_dim": group["head_dim_k"], **({"window": group["window"]} if "window" in group else {})})
        elif kind == "mla":
            found.append({"kind": kind, "layers": layers, "kv_lora_rank": group["kv_lora_rank"], "rope_dim": group["rope_dim"]})
        elif kind == "gdn":
            found.append({"kind": kind, "layers": layers, "key_heads": state["k_heads"], "value_heads": state["v_heads"], "key_head_dim": state["k_dim"], "value_head_dim": state["v_dim"], "conv_kernel": 4, "state_dtype": state["ssm_dtype"]})
        elif kind == "mamba2":
            found.append({"kind": kind, "layers": layers, "heads": state["v_heads"], "head_dim": state["v_dim"], "groups": state["groups"], "state_dim": state["k_dim"], "conv_kernel": 4, "chunk": state["chunk"], "state_dtype": state["ssm_dtype"]})
        elif kind == "compressed":
            found.append({"kind": kind, "layers": layers, "head_dim": group["head_dim_k"], "window": group["window"], "ratio": group.get("ratio", 0), **({"index_head_dim": group["index_dim"]} if "index_dim" in group else {})})
        elif kind == "indexer":
            found.append({"kind": kind, "layers": layers, "head_dim": group["head_dim_k"], "ratio": group.get("ratio", 1), "dtype": "bfloat16" if group.get("kv_dtype") == "bf16" else "fp8"})
        elif kind == "conv":
            found.append({"kind": kind, "layers": layers, "width": state["v_heads"] * state["v_dim"], "conv_kernel": state["conv_kernel"], "replicated": state.get("is_replicated", False)})
        else:
            found.append({"kind": kind, "layers": layers, "heads": state["v_heads"], "head_dim": state["v_dim"], "conv_kernel": 4})
    return found


def _release(case: dict[str, Any]) -> str:
    text = str(case["settings"]["release"])
    return text if text.count(".") == 2 else f"{text}.0"


def _settings(case: dict[str, Any], measured: bool) -> dict[str, Any]:
    asked, seen = case["settings"], case["seen"]
    values: dict[str, Any] = {
        "max_model_len": asked["window"], "tensor_parallel_size": asked.get("tp", 1), "data_parallel_size": asked.get("dp", 1), "kv_cache_dtype": asked.get("cache", "auto"),
        "block_size": asked.get("block"), "mamba_cache_mode": asked.get("mode"), "max_num_batched_tokens": asked.get("batch", USUAL_BATCH), "max_num_seqs": asked.get("seqs", 64),
        "enforce_eager": True if asked.get("start") == "eager" else None, "language_model_only": asked.get("language_only"), "gpu_memory_utilization": asked.get("util"),
        "enable_prefix_caching": asked.get("mode") != "none", "mamba_ssm_cache_dtype": asked.get("state_dtype"),
    }  # fmt: skip
    if not measured:
        values |= {"gpu_memory_utilization": None, "kv_cache_memory_bytes": int(seen["kv_bytes"] if "kv_bytes" in seen else seen.get("kv_gib", 40) * (1 << 30))}
    return {f"settings.{name}": REMOVE if value is None else {"value": value, "reason": "As it was served."} for name, value in values.items() if value is not None or name == "gpu_memory_utilization"}


def _subject(case: dict[str, Any]) -> Subject:
    asked, shape = case["settings"], DATA["shapes"][case["settings"]["shape"]]
    # A cache that was measured on a known card with known weights is planned; else the recorded cache is given.
    measured = "gpu" in asked and "util" in asked and ("weights_gib" in asked or "checkpoint_bytes" in asked)
    gpu = asked["gpu"] if measured else GIVEN.get(case["id"], H200)
    ranks = asked.get("tp", 1)
    weights = int(asked.get("checkpoint_bytes") or asked.get("weights_gib", 1.0) * ranks * (1 << 30))
    smi = gpu.get("smi_mib") or (gpu.get("cuda_bytes", 0) // MIB or gpu["cuda_mib"]) + 600
    capability, architecture = next(facts for name, facts in CARDS.items() if name in gpu["name"])
    model = {
        "architecture.kv": _layers(shape["groups"]), "architecture.layers": REMOVE, "architecture.hidden": shape["hidden"], "architecture.vocab": shape["vocab"],
        "architecture.experts": shape.get("experts", 0), "architecture.experts_per_token": shape.get("experts_per_token", 0), "architecture.moe_intermediate": shape.get("moe_intermediate", 0),
        "architecture.attention_heads": shape.get("heads", 64), "architecture.indivisible": [], "weights.loaded": weights, "checkpoint.download": weights, "context.native": asked["window"],
        "weights.per_gpu": int(asked["weights_gib"] * (1 << 30)) if "weights_gib" in asked else REMOVE,
        **({"architecture.intermediate": shape["intermediate"]} if "intermediate" in shape else {}),
        **({"mtp": {"layers": 1, "weights": "bf16", "tensors": 31}} if asked.get("draft") else {}),
    }  # fmt: skip
    hardware = {
        "gpu.name": f"NVIDIA {gpu['name']}", "gpu.vram_mib": smi, "gpu.compute_capability": capability, "gpu.architecture": architecture, "count": ranks * asked.get("dp", 1),
        "interconnect.kind": "nvlink", "interconnect.peer_to_peer": True,
        **({"gpu.cuda_total": gpu.get("cuda_bytes") or gpu["cuda_mib"] * MIB} if "cuda_bytes" in gpu or "cuda_mib" in gpu else {}),
    }  # fmt: skip
    speculation = {"speculation": {"method": "mtp", "tokens": asked["draft"], "reason": "As it was served."}} if asked.get("draft") else {}
    engine = "vllm-0.26.0" if _release(case).startswith("0.26") else "vllm-0.27.1"
    profile = {"engine": engine, "deploy.container_disk_gb": 4000, "deploy.min_ram_gb": 400, **_settings(case, measured), **speculation}
    return subject(BASE, {"profile": profile, "model": model, "hardware": hardware, "engine": {"release": _release(case)}})


@pytest.mark.parametrize("case", SERVED, ids=[case["id"] for case in SERVED])
def test_a_start_that_served_has_no_error(case: dict[str, Any]) -> None:
    errors = [f"{d.code}: {d.what}" for d in findings(_subject(case), "plan") if d.is_error]
    assert errors == []


def test_the_same_layers_with_too_little_memory_have_one() -> None:
    """The cases above reach the rules: the same start on a card of 12 GB is refused."""
    case = next(c for c in SERVED if c["id"] == "x-moe-bf16")
    small = {**case, "settings": {**case["settings"], "gpu": {"smi_mib": 12288, "name": "H200"}}}
    assert "MEM001" in {d.code for d in findings(_subject(small), "plan") if d.is_error}
