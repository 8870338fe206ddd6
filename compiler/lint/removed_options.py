"""Engine options that recipes still carry and that a shipped flag snapshot proves absent, with what to do instead."""

from __future__ import annotations

_GONE = "remove it: the scheduler has no such setting any more"
_SPECULATIVE = "put it into `speculation`, or into the mapping `speculative_config`"
_ROPE = "set `yarn_factor`; podwright writes the rope parameters where the checkpoint keeps them"

REMOVED: dict[str, str] = {
    "calculate_kv_scales": "remove it: scales come from the checkpoint",
    "cuda_graph_sizes": "use `cudagraph_capture_sizes`",
    "device": "remove it: the installed build decides the device",
    "disable_frontend_multiprocessing": "remove it: the API server and the engine are always two processes",
    "disable_log_requests": "remove it: requests are logged only with `enable_log_requests`",
    "disable_mm_preprocessor_cache": "use `mm_processor_cache_gb: 0`",
    "enable_multimodal_encoder_data_parallel": "use `mm_encoder_tp_mode: data`",
    "enable_prompt_adapter": "remove it: prompt adapters are gone",
    "enable_reasoning": "remove it: `reasoning_parser` alone switches reasoning on",
    "engine_use_ray": "use `distributed_executor_backend`",
    "full_cuda_graph": "use `compilation_config: {cudagraph_mode: FULL}`",
    "guided_decoding_backend": "use `structured_outputs_config: {backend: ...}`",
    "lora_extra_vocab_size": "remove it: adapters bring no words of their own any more",
    "max_long_partial_prefills": "remove it: a cold prefill is bound by compute, and partial prefills change nothing in its total",
    "max_num_partial_prefills": "remove it: a cold prefill is bound by compute, and partial prefills change nothing in its total",
    "max_seq_len_to_capture": "use `max_cudagraph_capture_size`",
    "multi_step_stream_outputs": _GONE,
    "num_lookahead_slots": _SPECULATIVE,
    "num_scheduler_steps": _GONE,
    "num_speculative_tokens": _SPECULATIVE,
    "override_attention_dtype": "remove it",
    "override_neuron_config": "use `additional_config`",
    "override_pooler_config": "use `pooler_config`",
    "preemption_mode": _GONE,
    "rope_scaling": _ROPE,
    "rope_theta": _ROPE,
    "scheduler_delay_factor": _GONE,
    "speculative_model": _SPECULATIVE,
    "swap_space": "use `kv_offloading_size` (GiB) to keep evicted blocks in host memory",
    "task": "use `runner` and `convert`",
    "tokenizer_pool_size": _GONE,
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
