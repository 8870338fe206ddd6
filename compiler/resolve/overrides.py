"""The `VL_*` variables of the documents that a running pod still honours, each with what its value may be.

Values are never evaluated by a shell: the bootstrap matches each against its pattern and hands them on as JSON. A pattern
keeps to what Bash's and Python's regular expressions share, and admits no quote, backslash or control character.

`setting` is an engine option that takes the value as it is, or `runtime.*` where the runtime translates it, or `bootstrap.*`
where the bootstrap itself reads it.
"""

from __future__ import annotations

from compiler.plan.core import EnginePlan, ImagePlan, Override

_COUNT = "[1-9][0-9]{0,6}"
_TOKENS = "[1-9][0-9]{2,7}"
_BYTES = "[1-9][0-9]{6,12}"
_SWITCH = "(on|off)"
_PORT = "[1-9][0-9]{2,4}"
_REPO = "[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME = "[A-Za-z0-9][A-Za-z0-9._/:-]*(\\[1m\\])?"
_SLUG = "[a-z0-9][a-z0-9._-]{0,62}"


def _row(name: str, pattern: str, setting: str, effect: str) -> Override:
    return Override(name=name, pattern=pattern, effect=effect, setting=setting)


_ENGINE = (
    _row("VL_CTX", _TOKENS, "max_model_len", "Context window in tokens."),
    _row("VL_YARN", _SWITCH, "runtime.yarn", "off: serve the native window, without YaRN."),
    _row("VL_YARN_FACTOR", "[1-9](\\.[0-9]{1,3})?", "runtime.yarn_factor", "YaRN factor."),
    _row("VL_KV", "(auto|bfloat16|fp8|fp8_e4m3|fp8_e5m2|turboquant_[a-z0-9_]{1,24})", "kv_cache_dtype", "Data type of the KV cache."),
    _row("VL_UTIL", "0\\.[0-9]{1,3}", "gpu_memory_utilization", "Share of the card that the engine may plan with."),
    _row("VL_KVBYTES", _BYTES, "kv_cache_memory_bytes", "A fixed KV cache in bytes for each GPU."),
    _row("VL_BATCHED", _TOKENS, "max_num_batched_tokens", "Tokens in one scheduling step."),
    _row("VL_LONGPREFILL", _TOKENS, "long_prefill_token_threshold", "Prompts above this many tokens count as long."),
    _row("VL_SEQS", _COUNT, "max_num_seqs", "Sequences decoded at once."),
    _row("VL_ATTN", "[A-Z][A-Z0-9_]{1,40}", "attention_backend", "Attention kernels."),
    _row("VL_ASYNC", _SWITCH, "runtime.async_scheduling", "Prepare the next step while the GPU works."),
    _row("VL_EP", _SWITCH, "runtime.enable_expert_parallel", "Spread experts over GPUs."),
    _row("VL_OPT", "[0-3]", "optimization_level", "Compilation effort."),
    _row("VL_DP", "[1-8]", "data_parallel_size", "Replicas of the model."),
    _row("VL_TP", "[1-8]", "tensor_parallel_size", "GPUs that share each layer."),
    _row("VL_MOE_BACKEND", "[a-z][a-z0-9_]{1,40}", "moe_backend", "Kernels of the routed experts."),
    _row("VL_LINEAR_BACKEND", "[a-z][a-z0-9_]{1,40}", "linear_backend", "Kernels of quantized dense layers."),
    _row("VL_MAMBA_BACKEND", "(flashinfer|triton)", "mamba_backend", "Kernels of the state-space layers."),
    _row("VL_MAMBA_DTYPE", "(float16|float32)", "mamba_ssm_cache_dtype", "Data type of the recurrent state."),
    _row("VL_STOCHASTIC", _SWITCH, "enable_mamba_cache_stochastic_rounding", "Round float16 states of state-space layers at random, without Triton on sm_89."),
    _row("VL_REPLAYSSM", _SWITCH, "use_replayssm", "Keep recent inputs of state-space layers instead of writing their state at each step."),
    _row("VL_SSU", "(auto|simple|vertical|horizontal)", "mamba_ssu_algorithm", "How FlashInfer updates states of state-space layers."),
    _row("VL_OFFLOAD", "[1-9][0-9]{0,3}", "kv_offloading_size", "Host memory for evicted KV blocks, in GiB."),
    _row("VL_NUMA", _SWITCH, "runtime.numa_bind", "Bind workers to NUMA nodes; give the nodes too."),
    _row("VL_NUMA_NODES", "[0-9]( [0-9]){0,7}", "runtime.numa_bind_nodes", "NUMA nodes, separated by spaces."),
    _row("VL_NOVIDEO", _SWITCH, "runtime.no_video", "on: refuse videos."),
    _row("VL_MM_IMAGES", "[0-9]{1,2}", "runtime.images_per_request", "Images in one request."),
)
_SPECULATION = (
    _row("VL_SPEC", "(off|ngram|mtp|dspark|dflash)", "runtime.speculation", "Method of speculative decoding; off is always safe."),
    _row("VL_SPEC_N", "[1-9][0-9]?", "runtime.speculation_tokens", "Draft tokens for each step."),
    _row("VL_LOOK_MIN", "[1-9][0-9]?", "runtime.lookup_min", "Shortest n-gram looked up."),
    _row("VL_LOOK_MAX", "[1-9][0-9]?", "runtime.lookup_max", "Longest n-gram looked up."),
    _row("VL_MTP_N", "[1-8]", "runtime.mtp_tokens", "MTP depth."),
    _row("VL_DSPARK_MODEL", _REPO, "runtime.draft", "Draft model of dspark."),
    _row("VL_DSPARK_N", "[1-9][0-9]?", "runtime.draft_tokens", "Draft tokens of dspark."),
    _row("VL_DFLASH2_MODEL", _REPO, "runtime.dflash_draft", "Draft model of dflash."),
    _row("VL_DFLASH2_N", "[1-9][0-9]?", "runtime.dflash_tokens", "Draft tokens of dflash."),
)
_POD = (
    _row("VL_MODEL", _SLUG, "runtime.model", "Which member of the swap set is served first."),
    _row("VL_ALIASES", f"{_NAME}( {_NAME}){{0,31}}", "runtime.aliases", "Further served names, separated by spaces."),
    _row("VL_BRIDGE", "(on|off|keepalive)", "runtime.bridge", "What listens on the public port."),
    _row("VL_PORT", _PORT, "runtime.engine_port", "The engine's own port."),
    _row("VL_PROXY_PORT", _PORT, "runtime.endpoint_port", "The port that clients reach."),
    _row("VL_CACHE", _SWITCH, "runtime.compile_cache", "Fetch and publish compiled graphs."),
    _row("VL_JOURNAL", _SWITCH, "runtime.journal", "Publish the boot journal."),
    _row("VL_JOURNAL_PERIODE", "[0-9]{1,5}", "runtime.journal_period", "Seconds between journals; 0 stops after the start."),
    _row("VL_HFOFFLINE", "(auto|on|off)", "bootstrap.offline", "Whether the engine may ask the Hub."),
)
_HOST = (
    _row("VL_FLASHINFER", _SWITCH, "bootstrap.flashinfer_sampler", "The flashinfer sampler, which is compiled at the first start."),
    _row("VL_FASTOK", "[01]", "bootstrap.fastokens", "The fast tokenizer."),
    _row("VL_HUMMING_EXTRAS", _SWITCH, "bootstrap.humming", "Install the CUDA 13 extras of humming-kernels where they are missing."),
)

OVERRIDES: tuple[Override, ...] = _ENGINE + _SPECULATION + _POD + _HOST
"""The whole table. Of the documents' levers these are left out, each for the reason in docs/bootstrap.md: VL_PARTIAL,
VL_SPEC_AUTO, VL_MTP_N_QWEN38, VL_LMCACHE, VL_LMCACHE_CHUNK, VL_SWAP, VL_SWAP_DIR, VL_PRECHARGE, VL_DESKTOP, VL_EFFORT_PATCH,
VL_CACHE_REPO, VL_MODEL_KEY."""


def overrides_for(
    image: ImagePlan, engine: EnginePlan, *, swaps: bool, has_journal: bool, has_compile_cache: bool, known_settings: frozenset[str]
) -> tuple[Override, ...]:
    """The rows that mean something for one profile. `known_settings` are the option names of its engine release."""
    absent = {
        "runtime.model": not swaps,
        "runtime.journal": not has_journal,
        "runtime.journal_period": not has_journal,
        "runtime.compile_cache": not has_compile_cache,
        "bootstrap.flashinfer_sampler": engine.cuda is None,
        "bootstrap.humming": not any(p.requirement.startswith("humming-kernels") for p in image.packages),
        "bootstrap.fastokens": not any(p.requirement.startswith("fastokens") for p in image.packages),
    }
    return tuple(o for o in OVERRIDES if not absent.get(o.setting, "." not in o.setting and o.setting not in known_settings))
