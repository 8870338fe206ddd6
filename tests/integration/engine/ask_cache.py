"""Ask a release's own code how it would lay out the cache of given layers, on a machine without a card.

    LD_LIBRARY_PATH=<environment>/no-device <environment>/bin/python ask_cache.py < jobs.json

A job is `{"id", "layers", "dtype", "tp", "pp", "mode", "drafts", "drafted", "batch", "seq", "window", "bytes", "v2", "checkpoint"}`:
kinds of layers as the planner names them, `drafted` those of a draft, and `bytes` of cache on each rank. One JSON line a job comes
back: blocks, bytes of a block, blocks of a request, tokens, concurrency, bytes needed and the longest window. The functions that
are called are those that size the cache of a real start; only the configuration that they read is stood in for.
"""
from __future__ import annotations

import copy
import json
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from vllm.config.vllm import VllmConfig
from vllm.model_executor.layers.mamba.mamba_utils import MambaStateShapeCalculator
from vllm.v1 import kv_cache_interface as spec_types
from vllm.v1.attention.backend import MultipleOf
from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum
from vllm.v1.core import kv_cache_utils

try:
    from vllm.v1.core import kv_cache_planning as planning
except ImportError:  # earlier releases keep both in one module
    planning = kv_cache_utils

WIDTHS = {"auto": torch.bfloat16, "fp8": torch.uint8, "nvfp4": torch.uint8, "int8_per_token_head": torch.int8}
KERNEL_BLOCK = 16
LATENT_BLOCK = 64
PACKED_BLOCK = 256


class Backend:
    """The attention backend as far as sizing asks it."""

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[Any]:
        """Any multiple of 16 tokens."""
        return [MultipleOf(KERNEL_BLOCK)]

    @classmethod
    def customize_spec(cls, spec: Any) -> Any:
        """How late releases let a backend pack its pages."""
        mode = spec.kv_quant_mode.name.lower()
        if mode.startswith("turboquant"):
            from vllm.v1.attention.backends.turboquant_attn import TurboQuantAttentionBackend as Packing
        elif mode == "nvfp4":
            from vllm.v1.attention.backends.flashinfer import FlashInferBackend as Packing
        else:
            from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend as Packing
        return Packing.customize_spec(spec) if hasattr(Packing, "customize_spec") else spec


def quant_mode(dtype: str) -> Any:
    return spec_types.get_kv_quant_mode(dtype)


def attention_spec(layer: dict[str, Any], job: dict[str, Any], block: int) -> Any:
    """The cache spec of one attention layer on one rank, as the release's layer would give it."""
    dtype = layer.get("kv_dtype") or job["dtype"]
    torch_dtype = WIDTHS.get(dtype, torch.uint8)
    if layer["kind"] == "mla":
        return spec_types.MLAAttentionSpec(
            block_size=block, num_kv_heads=1, head_size=layer["kv_lora_rank"] + layer["rope_dim"], dtype=torch_dtype, cache_dtype_str=dtype
        )
    heads, width = max(1, layer["kv_heads"] // job["tp"]), layer["head_dim_k"]
    common = {"block_size": block, "num_kv_heads": heads, "head_size": width, "dtype": torch_dtype, "kv_quant_mode": quant_mode(dtype)}
    if layer.get("head_dim_v"):
        common["head_size_v"] = layer["head_dim_v"]
    if dtype.startswith("turboquant") and hasattr(spec_types, "TQFullAttentionSpec"):
        from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig

        slot = TurboQuantConfig.from_cache_dtype(dtype, width).slot_size_aligned
        return spec_types.TQFullAttentionSpec(**common, tq_slot_size=slot)
    more, late = {}, hasattr(spec_types.KVCacheSpec, "has_layer_views")
    if not late and "indexes_kv_by_block_stride" in spec_types.AttentionSpec.__dataclass_fields__:
        more["indexes_kv_by_block_stride"] = True
    kinds = {"full": spec_types.FullAttentionSpec, "sliding": spec_types.SlidingWindowSpec, "chunked": spec_types.ChunkedLocalAttentionSpec}
    windows = {"sliding": "sliding_window", "chunked": "attention_chunk_size"}
    if layer["kind"] in windows:
        more[windows[layer["kind"]]] = layer["window"]
    made = kinds[layer["kind"]](**common, **more)
    return Backend.customize_spec(made) if late else made


def packed_specs(layer: dict[str, Any], block: int) -> list[Any]:
    """The cache specs of one of DeepSeek-V4's layers, made as its model code makes them: window, latents, keys, compressor's states."""
    late = "tokens_per_state" in spec_types.MLAAttentionSpec.__dataclass_fields__
    ratio, width, shards = layer.get("ratio", 0), layer["head_dim_k"], {"max_tp_shards": 1} if late else {}
    record = {"cache_dtype_str": "fp8_ds_mla", "model_version": "deepseek_v4", "alignment": 576, "dtype": torch.uint8, "num_kv_heads": 1, **shards}
    record |= {"state_content_bytes": 584} if late else {}
    found = [spec_types.SlidingWindowMLASpec(block_size=64, head_size=width, sliding_window=layer["window"], **record)]
    if not ratio:
        return found
    every = {"tokens_per_state" if late else "compress_ratio": ratio}
    found.append(spec_types.MLAAttentionSpec(block_size=block, head_size=width, **every, **record))
    keys = layer.get("index_dim", 0)
    if keys:
        key = {"block_size": block, "num_kv_heads": 1, "head_size": keys + keys // 128 * 4, "dtype": torch.uint8, "alignment": 576, **shards}
        found.append(spec_types.MLAAttentionSpec(**key, **every))
    tokens, overlap = (4, 2) if ratio == 4 else (8, 1)
    for wide in [width, keys] if keys else [width]:
        state = {"block_size": tokens, "num_kv_heads": 1, "head_size": 2 * overlap * wide, "dtype": torch.float32, "alignment": 576, **shards}
        found.append(spec_types.SlidingWindowMLASpec(**state, sliding_window=overlap * ratio))
    return found


def indexer_specs(layer: dict[str, Any], job: dict[str, Any], block: int) -> list[Any]:
    """The keys of an indexer: one for every token with its scale, or one for a pool of tokens and the ring of the pool that is open."""
    width, ratio = layer["head_dim_k"], layer.get("ratio", 0)
    is_wide = layer.get("kv_dtype") == "bf16"
    key = {"head_size": width, "dtype": torch.bfloat16} if is_wide else {"head_size": width + width // 128 * 4, "dtype": torch.uint8}
    every = {"tokens_per_state": ratio} if ratio else {}
    keys = spec_types.MLAAttentionSpec(block_size=block, num_kv_heads=1, **key, **every)
    if not ratio:
        return [keys]
    pools = -(-(ratio + job["drafts"]) // ratio)
    capacity = ratio * (pools if is_wide else 1 << (pools - 1).bit_length())
    ring = {"block_size": capacity, "head_size": width, "head_size_v": 0, "dtype": torch.bfloat16}
    return [keys, spec_types.CircularBufferSpec(num_kv_heads=1 if is_wide else 2, **ring)]


def layer_specs(layer: dict[str, Any], job: dict[str, Any], block: int, padded: int | None) -> list[Any]:
    """All caches of one layer."""
    if layer["kind"] == "compressed":
        return packed_specs(layer, block)
    if layer["kind"] == "indexer":
        return indexer_specs(layer, job, block)
    return [state_spec(layer, job, block, padded) if "state" in layer else attention_spec(layer, job, block)]


def state_shapes(layer: dict[str, Any], job: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """Shapes of one layer's state on one rank, by the release's own calculator."""
    s, tp, drafts, ask = layer["state"], job["tp"], job["drafts"], MambaStateShapeCalculator
    if layer["kind"] == "gdn":
        return ask.gated_delta_net_state_shape(tp, s["k_heads"], s["v_heads"], s["k_dim"], s["v_dim"], s["conv_kernel"], drafts)
    if layer["kind"] == "conv":
        return ask.short_conv_state_shape(1 if s["is_replicated"] else tp, s["v_heads"] * s["v_dim"], s["conv_kernel"], drafts)
    if layer["kind"] == "kda":
        return ask.kda_state_shape(tp, s["v_heads"], s["v_dim"], conv_kernel_size=s["conv_kernel"], num_spec=drafts)
    inner = s["v_heads"] * s["v_dim"]
    return ask.mamba2_state_shape(tp, inner, s["groups"], s["v_heads"], s["v_dim"], s["k_dim"], s["conv_kernel"], drafts)


def state_spec(layer: dict[str, Any], job: dict[str, Any], block: int, padded: int | None) -> Any:
    """The cache spec of one state layer."""
    width = torch.float32 if layer["kind"] == "kda" else getattr(torch, layer["state"]["ssm_dtype"])
    shapes = state_shapes(layer, job)
    dtypes = (*[torch.bfloat16] * (len(shapes) - 1), torch.bfloat16 if layer["kind"] == "conv" else width)
    more = {"num_prefill_checkpoint_blocks": job["checkpoint"]} if job["checkpoint"] else {}
    if layer["kind"] == "conv":
        more |= {"mamba_type": MambaAttentionBackendEnum.SHORT_CONV, "tp_replicated": layer["state"]["is_replicated"]}
    return spec_types.MambaSpec(
        block_size=block, shapes=shapes, dtypes=dtypes, page_size_padded=padded, mamba_cache_mode=job["mode"], num_speculative_blocks=job["drafts"], **more
    )


def aligned(job: dict[str, Any]) -> tuple[int, int | None]:
    """The attention block and the padded state page of a hybrid, as the release's platform aligns them."""
    from vllm.platforms.interface import Platform

    first = next(layer for layer in job["layers"] if layer["kind"] not in ("gdn", "kda", "mamba2"))
    state = next(layer for layer in job["layers"] if layer["kind"] in ("gdn", "kda", "mamba2"))
    latent, spec = first["kind"] == "mla", state_spec(state, job, -1, None)
    cache = SimpleNamespace(
        cache_dtype=job["dtype"], kv_cache_dtype_skip_layers=None, block_size=job.get("block") or KERNEL_BLOCK, mamba_cache_mode=job["mode"],
        mamba_block_size=None, mamba_page_size_padded=None, user_specified_block_size=False, user_specified_mamba_block_size=False,
    )  # fmt: skip
    model = SimpleNamespace(
        dtype=torch.bfloat16, use_mla=latent, architecture="", get_num_kv_heads=lambda _: 1 if latent else max(1, first["kv_heads"] // job["tp"]),
        get_head_size=lambda: first["kv_lora_rank"] + first["rope_dim"] if latent else first["head_dim_k"],
        get_mamba_chunk_size=lambda: state["state"].get("chunk", 256), max_model_len=job["window"],
    )  # fmt: skip
    model_class = SimpleNamespace(
        get_mamba_state_shape_from_config=lambda _: spec.shapes, get_mamba_state_dtype_from_config=lambda _: spec.dtypes
    )
    config = SimpleNamespace(cache_config=cache, model_config=model, parallel_config=SimpleNamespace(tensor_parallel_size=job["tp"]))
    grid = 64 if job["checkpoint"] and state["kind"] == "gdn" else 1
    with (
        mock.patch("vllm.model_executor.models.ModelRegistry.resolve_model_cls", return_value=(model_class, "")),
        mock.patch("vllm.config.vllm.set_current_vllm_config"),
        mock.patch("vllm.model_executor.layers.mamba.abstract.get_mamba_prefill_checkpoint_alignment", return_value=grid, create=True),
        mock.patch.object(Platform, "_find_non_ssm_backends", return_value=[Backend], create=True),
    ):
        Platform._align_hybrid_block_size(config, Backend)
    return cache.block_size, cache.mamba_page_size_padded


def least_block(layers: list[dict[str, Any]]) -> int:
    """The block of layers without states, where nobody chose one."""
    kinds = {layer["kind"] for layer in layers}
    return PACKED_BLOCK if "compressed" in kinds else LATENT_BLOCK if "mla" in kinds else KERNEL_BLOCK


def rank_specs(job: dict[str, Any]) -> list[dict[str, Any]]:
    """For each pipeline stage the specs of its layers by name; kinds are dealt out evenly over the depth, as in real models."""
    layers = [*job["layers"], *job["drafted"]]
    hybrid = any("state" in layer for layer in layers) and any("state" not in layer for layer in layers)
    block, padded = aligned(job) if hybrid else (job.get("block") or least_block(layers), None)
    stages: list[dict[str, Any]] = [{} for _ in range(job["pp"])]
    for kind, layer in enumerate(layers):
        made = layer_specs(layer, job, block, padded)
        for index in range(layer["layers"]):
            stage = stages[-1 if kind >= len(job["layers"]) else index * job["pp"] // layer["layers"]]
            stage |= {f"{kind}.{index}.{part}": copy.copy(spec) for part, spec in enumerate(made)}  # releases pad a spec in place
    return stages


def is_packed(job: dict[str, Any]) -> bool:
    """True for layers whose caches of several kinds share one slab, block after block: DeepSeek-V4's, and rings beside keys."""
    return any(layer["kind"] == "compressed" or (layer["kind"] == "indexer" and layer.get("ratio")) for layer in job["layers"])


def configuration(job: dict[str, Any]) -> Any:
    """What the sizing functions read of the engine's configuration."""
    parallel = SimpleNamespace(
        decode_context_parallel_size=1, prefill_context_parallel_size=1, tensor_parallel_size=job["tp"], pipeline_parallel_size=job["pp"]
    )
    layouts = getattr(spec_types, "KVCacheLayout", None)
    cache = SimpleNamespace(
        num_gpu_blocks_override=None, mamba_cache_mode=job["mode"], enable_prefix_caching=job["mode"] != "none", prefix_cache_retention_interval=None,
        get_resolved_kv_cache_layout=lambda: layouts.BLNHC if is_packed(job) else layouts.LBNHC, block_size=KERNEL_BLOCK,
    )  # fmt: skip
    scheduler = SimpleNamespace(max_num_batched_tokens=job["batch"], disable_hybrid_kv_cache_manager=False, async_scheduling=True)
    model = SimpleNamespace(max_model_len=job["window"], original_max_model_len=job["window"], supports_kv_cache_grouping=False)
    config = SimpleNamespace(
        parallel_config=parallel, cache_config=cache, scheduler_config=scheduler, model_config=model, kv_transfer_config=None, speculative_config=None,
        attention_config=SimpleNamespace(hisparse_config=None), use_v2_model_runner=job["v2"], num_prefill_lookahead_tokens=0, additional_config={},
        compilation_config=SimpleNamespace(static_forward_context={}),
    )  # fmt: skip
    for name in ("max_concurrent_batches", "max_in_flight_tokens"):
        setattr(config, name, getattr(VllmConfig, name).fget(config))
    return config


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """What the release says to one job."""
    config, stages, late = configuration(job), rank_specs(job), hasattr(planning, "get_global_kv_cache_groups")
    memory = [job["bytes"]] * len(stages)
    whole = {name: spec for stage in stages for name, spec in stage.items()}
    groups = planning.get_kv_cache_groups(config, copy.deepcopy(whole))
    shares = [planning._project_kv_cache_groups_to_worker(groups, stage) for stage in stages]
    if late:
        from vllm.v1.core.kv_cache_config_builder import get_kv_cache_config_builder

        with mock.patch.object(planning, "_check_enough_kv_cache_memory"):
            configs = planning.get_kv_cache_configs(config, stages, memory, groups)
        builder = (get_kv_cache_config_builder(config),)
    else:
        with mock.patch.object(planning, "_check_enough_kv_cache_memory"):
            configs = planning.get_kv_cache_configs(config, copy.deepcopy(stages), memory)
        builder = ()
    asked = [planning._max_memory_usage_bytes_from_groups(*builder, config, share) for share in shares]
    blocks = [planning._pool_bytes_per_block(config, share) for share in shares]
    spare = blocks if late else [0] * len(blocks)
    longest = [planning._estimate_max_model_len_from_groups(*builder, config, g, job["bytes"] - s) for g, s in zip(shares, spare, strict=True)]
    concurrency = kv_cache_utils.get_max_concurrency_for_kv_cache_config(config, configs[0])
    return {
        "id": job["id"], "blocks": configs[0].num_blocks, "block_bytes": max(blocks), "needed": max(asked), "longest": min(longest),
        "concurrency": concurrency, "tokens": int(concurrency * job["window"]),
        "block": (max if is_packed(job) else min)(g.kv_cache_spec.block_size for g in groups if not isinstance(g.kv_cache_spec, spec_types.MambaSpec)),
    }  # fmt: skip


def main() -> None:
    """Answer the jobs on standard input, one line each; what a release refuses comes back with its words."""
    for job in json.load(sys.stdin):
        try:
            print(json.dumps(answer(job)), flush=True)
        except Exception as error:  # the engine may raise anything
            print(json.dumps({"id": job["id"], "error": f"{type(error).__name__}: {error}"[:400]}), flush=True)


if __name__ == "__main__":
    main()
