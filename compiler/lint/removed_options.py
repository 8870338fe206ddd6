"""Engine options that recipes still carry and that a shipped flag snapshot proves absent, with what to do instead."""

from __future__ import annotations

_GONE = "remove it: the scheduler has no such setting any more"
_SPECULATIVE = "put it into `speculation`, or into the mapping `speculative_config`"
_ROPE = "set `yarn_factor`; podwright writes the rope parameters where the checkpoint keeps them"

REMOVED: dict[str, str] = {
    "calculate_kv_scales": "remove it: scales come from the checkpoint",
    "cuda_graph_sizes": "use `cudagraph_capture_sizes`",
    "device": "remove it: the installed build decides the device",
    "disable_async_output_proc": _GONE,
    "disable_frontend_multiprocessing": "remove it: the API server and the engine are always two processes",
    "disable_log_requests": "remove it: requests are logged only with `enable_log_requests`",
    "disable_mm_preprocessor_cache": "use `mm_processor_cache_gb: 0`",
    "enable_multimodal_encoder_data_parallel": "use `mm_encoder_tp_mode: data`",
    "enable_prompt_adapter": "remove it: prompt adapters are gone",
    "enable_reasoning": "remove it: `reasoning_parser` alone switches reasoning on",
    "engine_use_ray": "use `distributed_executor_backend`",
    "full_cuda_graph": "use `compilation_config: {cudagraph_mode: FULL}`",
    "guided_decoding_backend": "use `structured_outputs_config: {backend: ...}`",
    "long_lora_scaling_factors": "remove it: the adapter brings its own scaling",
    "lora_extra_vocab_size": "remove it: adapters bring no words of their own any more",
    "max_context_len_to_capture": "use `max_cudagraph_capture_size`",
    "max_long_partial_prefills": "remove it: a cold prefill is bound by compute, and partial prefills change nothing in its total",
    "max_num_partial_prefills": "remove it: a cold prefill is bound by compute, and partial prefills change nothing in its total",
    "max_seq_len_to_capture": "use `max_cudagraph_capture_size`",
    "multi_step_stream_outputs": _GONE,
    "ngram_prompt_lookup_max": _SPECULATIVE,
    "ngram_prompt_lookup_min": _SPECULATIVE,
    "num_lookahead_slots": _SPECULATIVE,
    "num_scheduler_steps": _GONE,
    "num_speculative_tokens": _SPECULATIVE,
    "override_attention_dtype": "remove it",
    "override_neuron_config": "use `additional_config`",
    "override_pooler_config": "use `pooler_config`",
    "preemption_mode": _GONE,
    "qlora_adapter_name_or_path": "use `lora_modules`",
    "rope_scaling": _ROPE,
    "rope_theta": _ROPE,
    "scheduler_delay_factor": _GONE,
    "spec_decoding_acceptance_method": _SPECULATIVE,
    "speculative_disable_by_batch_size": _SPECULATIVE,
    "speculative_draft_tensor_parallel_size": _SPECULATIVE,
    "speculative_max_model_len": _SPECULATIVE,
    "speculative_model": _SPECULATIVE,
    "swap_space": "use `kv_offloading_size` (GiB) to keep evicted blocks in host memory",
    "task": "use `runner` and `convert`",
    "tokenizer_pool_extra_config": _GONE,
    "tokenizer_pool_size": _GONE,
    "tokenizer_pool_type": _GONE,
    "use_v2_block_manager": "remove it: there is only one block manager",
    "worker_use_ray": "use `distributed_executor_backend`",
}
"""What to do instead, by option name."""

RENAMED: dict[str, str] = {
    "cuda_graph_sizes": "cudagraph_capture_sizes",
    "max_seq_len_to_capture": "max_cudagraph_capture_size",
    "override_neuron_config": "additional_config",
    "override_pooler_config": "pooler_config",
}
"""Those whose value is written as before under another name."""

_ALWAYS = "remove it: there is only one engine core"
_MOE = "use `moe_backend`"

REPLACED: dict[str, str] = {
    "VLLM_ALL2ALL_BACKEND": "use `all2all_backend`",
    "VLLM_ATTENTION_BACKEND": "use `attention_backend`: the variable is read no more, and the engine chooses by itself",
    "VLLM_FLASHINFER_MOE_BACKEND": _MOE,
    "VLLM_FLASH_ATTN_VERSION": "use `attention_config: {flash_attn_version: ...}`",
    "VLLM_MXFP4_USE_MARLIN": _MOE,
    "VLLM_NVFP4_GEMM_BACKEND": "use `linear_backend`",
    "VLLM_RPC_TIMEOUT": "remove it; `VLLM_ENGINE_READY_TIMEOUT_S` bounds the start",
    "VLLM_TORCH_PROFILER_DIR": "use `profiler_config`",
    "VLLM_USE_FLASHINFER_MOE_FP16": _MOE,
    "VLLM_USE_FLASHINFER_MOE_FP4": _MOE,
    "VLLM_USE_FLASHINFER_MOE_FP8": _MOE,
    "VLLM_USE_FLASHINFER_MXFP4_MOE": _MOE,
    "VLLM_USE_TRITON_FLASH_ATTN": "use `attention_backend`",
    "VLLM_USE_TRTLLM_ATTENTION": "use `attention_config: {use_trtllm_attention: ...}`",
    "VLLM_USE_V1": _ALWAYS,
}
"""Environment variables that recipes still carry and no shipped snapshot has, with what took their place."""
