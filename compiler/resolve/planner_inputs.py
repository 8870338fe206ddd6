"""Specs and decided settings to the memory planner's plain inputs."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any, get_args

from compiler.plan import from_json
from compiler.plan.memory import MemoryPlan
from compiler.resolve.connectors import keeps_hybrid_manager
from compiler.resolve.memory import (
    CardMemory,
    LayerGroup,
    Lora,
    MeasuredKV,
    MeasuredStart,
    MemoryInputs,
    ModelShape,
    Speculation,
    StateDims,
    Weights,
    memory_plan,
)
from compiler.resolve.memory.inputs import MambaMode, own_draft
from compiler.resolve.memory.releases import parsed_release
from compiler.resolve.settings import Settings
from compiler.schema import ModelSpec
from compiler.schema.model import (
    AttentionLayers,
    CompressedLayers,
    ConvolutionLayers,
    GatedDeltaLayers,
    IndexerLayers,
    KimiDeltaLayers,
    LatentLayers,
    Layers,
    MambaLayers,
)
from compiler.schema.specset import SpecSet
from compiler.units import GIB

CPU_SPACE = "VLLM_CPU_KVCACHE_SPACE"  # GiB of KV cache on the engine's CPU build; its own default is 4.
CPU_SPACE_DEFAULT = 4
# Bytes of a stored weight with its scales, in the groups that checkpoints have: 128 weights of INT4, 16 of NVFP4.
_WIDTH = {"int4": 0.52, "nvfp4": 0.5625, "fp8": 1.0, "bf16": 2.0, "fp16": 2.0}
_STORED = {"awq-int4": "int4", "gptq-int4": "int4", "nvfp4": "nvfp4", "fp8": "fp8", "none": "bf16"}
_MOST_EXPERTS = 0.97  # Something is always left for attention and embeddings.
MOST_OFFLOAD_GIB = 1 << 20  # More than any host has; beyond it the number is a slip.


def planned_memory(inputs: MemoryInputs, starts: tuple[MeasuredStart, ...] = (), max_model_len: int | None = None) -> MemoryPlan:
    """The memory plan, rounded as it is published, so that a plan read back from JSON is the same plan.

    A cache or state type that the planner does not know gives a plan that refuses and says so: nothing may pass uncounted.
    """
    if max_model_len is not None:
        inputs = dataclasses.replace(inputs, max_model_len=max_model_len)
    try:
        return from_json(MemoryPlan, memory_plan(inputs, starts).to_json())
    except ValueError as error:
        known = dataclasses.replace(inputs, kv_dtype="auto", mamba_cache_dtype=None)
        counted = dataclasses.replace(memory_plan(known), verdict="refused", reasons=(f"the planner cannot count this cache: {error}",))
        return from_json(MemoryPlan, counted.to_json())


def planner_inputs(specs: SpecSet, settings: Settings, env: dict[str, str]) -> MemoryInputs:
    """Everything that the planner reads, at the native window until one is decided."""
    get, whole = settings.get, settings.whole
    is_cpu = specs.hardware.gpu.architecture == "cpu"
    utilization = get("gpu_memory_utilization")
    return MemoryInputs(
        engine_release=specs.engine.release, card=_card(specs), geometry=_geometry(specs.model, settings), weights=_weights(specs.model),
        max_model_len=whole("max_model_len", specs.model.context.native), shape=_shape(specs.model),
        tp=whole("tensor_parallel_size", 1), pp=whole("pipeline_parallel_size", 1), dp=whole("data_parallel_size", 1),
        dcp=whole("decode_context_parallel_size", 1), kv_dtype=_cache_type(specs, get("kv_cache_dtype")),
        block_size=whole("block_size", None), mamba_block_size=whole("mamba_block_size", None),
        mamba_cache_mode=_state_mode(settings), mamba_cache_dtype=_state_dtype(settings.word("mamba_ssm_cache_dtype")),
        prefix_caching=get("enable_prefix_caching") is True, max_num_batched_tokens=whole("max_num_batched_tokens", None), max_num_seqs=whole("max_num_seqs", None),
        gpu_memory_utilization=utilization if isinstance(utilization, float) and 0 < utilization <= 1 else None,
        kv_cache_memory_bytes=_cpu_space(env) if is_cpu else whole("kv_cache_memory_bytes", None), num_gpu_blocks_override=whole("num_gpu_blocks_override", None),
        enforce_eager=bool(get("enforce_eager")), full_cudagraphs=_full_graphs(settings.mapping("compilation_config")),
        async_scheduling=get("async_scheduling") is not False, speculation=_speculation(specs, settings), language_model_only=bool(get("language_model_only")),
        custom_all_reduce=not get("disable_custom_all_reduce"), hybrid_manager=_hybrid_manager(specs, settings),
        runner=_forced_runner(env), marlin_moe=_uses_marlin_experts(specs, settings.word("moe_backend")),
        cpu_offload_bytes=_offloaded(get("cpu_offload_gb")), lora=_lora(settings),
    )  # fmt: skip


def measured_starts(specs: SpecSet, settings: Settings, env: dict[str, str]) -> tuple[MeasuredStart, ...]:
    """The hardware's measured starts of this model, each as the planner's inputs with the settings that were in force then.

    A start with a draft model that this profile does not name is left out: nobody can count its layers.
    """
    found = []
    for start in specs.hardware.starts:
        if start.model != specs.profile.model:
            continue
        # The size of the cache was the result then, so a size that this profile fixes says nothing about it.
        there = Settings(specs, settings.ledger)
        there.values = {**settings.values, "kv_cache_memory_bytes": None, **start.settings}
        method = there.mapping("speculative_config").get("method")
        if method not in (None, "mtp", "ngram") and method != settings.mapping("speculative_config").get("method"):
            continue
        inputs = planner_inputs(specs, there, env)
        differs = tuple(f"{name} {_said(value)}" for name, value in sorted(start.settings.items()) if value != settings.get(name))
        found.append(MeasuredStart(start.evidence, inputs, start.kv_gib, start.kv_tokens, differs))
    return tuple(found)


def _said(value: Any) -> str:
    return "not set" if value is None else json.dumps(value) if isinstance(value, (dict, bool)) else str(value)


def effective_kv_dtype(model: ModelSpec, chosen: str | None) -> str:
    """The cache type that is really used: `auto` follows the scheme that the checkpoint's config imposes."""
    if chosen not in (None, "auto"):
        return str(chosen)
    return model.quantization.kv_cache_scheme or "auto"


def _cache_type(specs: SpecSet, chosen: str | None) -> str:
    """As `effective_kv_dtype`; from 0.32 on GLM's sparse attention takes fp8 unasked on compute capability 10.x (`models/config.py`)."""
    asked, gpu = effective_kv_dtype(specs.model, chosen), specs.hardware.gpu
    narrows = asked == "auto" and specs.model.architecture.model_type == "glm_moe_dsa" and parsed_release(specs.engine.release) >= (0, 32, 0)
    return "fp8" if narrows and gpu.architecture != "cpu" and _number(gpu.compute_capability)[0] == 10 else asked


def _card(specs: SpecSet) -> CardMemory:
    gpu, host = specs.hardware.gpu, specs.hardware.host
    return CardMemory(total_bytes=gpu.cuda_total, vram_mib=gpu.vram_mib, already_used_bytes=host.reserved or 0, name=gpu.name, is_cpu=gpu.architecture == "cpu",
                      capability=None if gpu.architecture == "cpu" else _number(gpu.compute_capability))


def _weights(model: ModelSpec) -> Weights:
    w = model.weights
    return Weights(total=w.loaded, replicated=w.replicated or 0, experts=w.experts or _expert_bytes(model), per_rank=w.per_gpu, vision=w.vision or 0, offloaded=w.offloaded or 0)


def _expert_bytes(model: ModelSpec) -> int:
    """Bytes of the routed experts by the recorded shape, where the spec does not count them; 0 where the shape is not whole.

    Layers that keep neither cache nor state are the experts' own, as Nemotron's; else every layer has some. Nemotron's have no gate.
    """
    a, parts = model.architecture, model.quantization.parts
    stored = next((part.weights for part in parts if part.part == "routed-experts"), _STORED.get(model.quantization.scheme, ""))
    if not (a.hidden and a.layers and a.moe_intermediate) or stored not in _WIDTH:
        return 0
    mixing = sum(layers.layers for layers in a.kv)
    layers = a.layers - mixing if a.layers > mixing else a.layers
    matrices = 2 if a.model_type.startswith("nemotron_h") else 3
    size = a.experts * matrices * a.hidden * a.moe_intermediate * layers * _WIDTH[stored]
    others = (model.weights.vision or 0) + (model.weights.replicated or 0)
    return int(min(size, (model.weights.loaded - others) * _MOST_EXPERTS))


def _shape(model: ModelSpec) -> ModelShape:
    a = model.architecture
    return ModelShape(
        hidden=a.hidden or 0, intermediate=a.intermediate or 0, vocab=a.vocab, heads=a.attention_heads or 0, experts=a.experts, experts_per_token=a.experts_per_token,
        moe_intermediate=a.moe_intermediate, is_moe=_has_experts(model), is_multimodal=a.multimodal, layers=a.layers or 0,
    )  # fmt: skip


def _has_experts(model: ModelSpec) -> bool:
    """True for a mixture of experts, even one whose number of experts nobody recorded."""
    return model.architecture.experts > 0 or any(part.part == "routed-experts" for part in model.quantization.parts)


def _geometry(model: ModelSpec, settings: Settings) -> tuple[LayerGroup, ...] | MeasuredKV:
    measured = model.architecture.measured_kv
    if measured is not None:
        drafted = measured.mtp_fixed if settings.mapping("speculative_config").get("method") == "mtp" else None
        return MeasuredKV(measured.bytes_per_token, (measured.fixed or 0) + (drafted or 0), measured.block)
    return tuple(planned_group(layers) for layers in model.architecture.kv)


def planned_group(layers: Layers) -> LayerGroup:
    """Layers of a spec as the planner counts them."""
    if isinstance(layers, AttentionLayers):
        return LayerGroup(layers.kind, layers.layers, kv_heads=layers.kv_heads, head_dim_k=layers.head_dim, head_dim_v=layers.value_head_dim or 0, window=layers.window or 0)
    if isinstance(layers, LatentLayers):
        return LayerGroup("mla_ds" if layers.kind == "mla-ds" else "mla", layers.layers, kv_lora_rank=layers.kv_lora_rank, rope_dim=layers.rope_dim)
    if isinstance(layers, CompressedLayers):
        return LayerGroup("compressed", layers.layers, head_dim_k=layers.head_dim, window=layers.window, ratio=layers.ratio, index_dim=layers.index_head_dim or 0)
    if isinstance(layers, IndexerLayers):
        return LayerGroup("indexer", layers.layers, head_dim_k=layers.head_dim, ratio=layers.ratio if layers.ratio > 1 else 0,
                          kv_dtype="bf16" if layers.dtype == "bfloat16" else None)  # fmt: skip
    return LayerGroup(layers.kind, layers.layers, state=_state(layers))


def _state(layers: GatedDeltaLayers | MambaLayers | KimiDeltaLayers | ConvolutionLayers) -> StateDims:
    if isinstance(layers, ConvolutionLayers):
        return StateDims(v_heads=1, v_dim=layers.width, k_dim=0, conv_kernel=layers.conv_kernel, is_replicated=layers.replicated)
    if isinstance(layers, GatedDeltaLayers):
        return StateDims(v_heads=layers.value_heads, v_dim=layers.value_head_dim, k_dim=layers.key_head_dim, k_heads=layers.key_heads, conv_kernel=layers.conv_kernel, ssm_dtype=layers.state_dtype)
    if isinstance(layers, MambaLayers):
        return StateDims(v_heads=layers.heads, v_dim=layers.head_dim, k_dim=layers.state_dim, groups=layers.groups, conv_kernel=layers.conv_kernel, chunk=layers.chunk, ssm_dtype=layers.state_dtype)
    return StateDims(v_heads=layers.heads, v_dim=layers.head_dim, k_dim=layers.head_dim, k_heads=layers.heads, conv_kernel=layers.conv_kernel)


def _speculation(specs: SpecSet, settings: Settings) -> Speculation | None:
    config = settings.mapping("speculative_config")
    if not config:
        return None
    method, tokens = str(config.get("method", "")), config.get("num_speculative_tokens")
    tokens = tokens if isinstance(tokens, int) and tokens > 0 else 1
    if method != "mtp":
        draft = specs.profile.speculation.draft if specs.profile.speculation else None
        if draft is None:
            return Speculation(method, tokens)
        return Speculation(method, tokens, tuple(planned_group(layers) for layers in draft.kv), draft.loaded or 0)
    layers = specs.model.mtp.layers if specs.model.mtp else 1
    groups = own_draft(tuple(planned_group(group) for group in specs.model.architecture.kv), layers)
    return Speculation(method, tokens, groups, specs.model.weights.mtp or 0)


def _offloaded(asked: Any) -> int:
    """Bytes of each rank's weights that `cpu_offload_gb` (GiB) keeps in host memory; nothing for what is no amount."""
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not 0 < asked <= MOST_OFFLOAD_GIB:
        return 0
    return int(asked * GIB)


def _lora(settings: Settings) -> Lora | None:
    """Slots for adapters; the engine's own defaults are one adapter of rank 16."""
    if settings.get("enable_lora") is not True:
        return None
    return Lora(settings.whole("max_loras", 1), settings.whole("max_lora_rank", 16), settings.get("fully_sharded_loras") is True)


def _cpu_space(env: dict[str, str]) -> int:
    """Bytes of the CPU build's cache; what is not a whole number of GiB counts as the build's own default."""
    asked = env.get(CPU_SPACE, "")
    return (int(asked) if asked.isascii() and asked.isdigit() and 0 < len(asked) < 7 and int(asked) else CPU_SPACE_DEFAULT) * GIB


def _state_mode(settings: Settings) -> MambaMode | None:
    mode = settings.word("mamba_cache_mode")
    return next((known for known in get_args(MambaMode) if known == mode), None)


def _state_dtype(chosen: str | None) -> str | None:
    return None if chosen in (None, "auto") else chosen


def _hybrid_manager(specs: SpecSet, settings: Settings) -> bool:
    """An explicit setting decides; without one the engine asks the KV connector."""
    chosen = settings.get("disable_hybrid_kv_cache_manager")
    if isinstance(chosen, bool):
        return not chosen
    release = tuple(int(part) for part in re.findall(r"[0-9]+", specs.engine.release)[:3])
    return keeps_hybrid_manager(settings.mapping("kv_transfer_config"), release)


def _full_graphs(compilation: Mapping[str, Any]) -> bool:
    mode = compilation.get("cudagraph_mode")
    return mode not in ("NONE", "PIECEWISE", 0, 1)


def _forced_runner(env: dict[str, str]) -> Any:
    return {"0": "V1", "1": "V2"}.get(env.get("VLLM_USE_V2_MODEL_RUNNER", ""))


def _uses_marlin_experts(specs: SpecSet, backend: str | None) -> bool:
    if not specs.model.architecture.experts or specs.model.quantization.scheme == "none":
        return False
    return backend == "marlin" or (backend in (None, "auto") and "marlin" in kernel(specs).lower())


def kernel(specs: SpecSet) -> str:
    """The kernel that the checkpoint's quantization resolves to on this hardware; empty when its spec does not say."""
    capability = _number(specs.hardware.gpu.compute_capability)
    fitting = [k for k in specs.model.quantization.kernels if _number(k.min_compute_capability) <= capability]
    return max(fitting, key=lambda k: _number(k.min_compute_capability)).kernel if fitting else ""


def _number(capability: str) -> tuple[int, int]:
    major, minor = capability.split(".")
    return int(major), int(minor)
