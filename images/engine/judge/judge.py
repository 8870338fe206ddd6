"""What an engine release itself says to a command line on a card that is not here. Runs inside that release's environment.

    PODWRIGHT_CARD='{"name": "NVIDIA A40", ...}' PYTHONPATH=<this folder> LD_LIBRARY_PATH=<folder of a libcuda.so.1> \\
        python judge.py < jobs.json

A job is `{"id", "model" (a folder with config.json), "argv" (flags only), "env" (more variables), "build" (also construct the model
for each rank, on the meta device), "kv_bytes" (memory for the KV cache of one rank, or null)}`. One JSON line a job:

`accepted`, `stage` (parser, configuration, model, cache: where it was refused; none: it could not be judged), `error` in the engine's words, `resolved` (what the
configuration became), `ranks` (of each rank: its pipeline stage and that one's layers, parameters, backends, KV cache specs; of the first
one also `cache`: how the release divides `kv_bytes` of every rank).

The engine is imported once; each job, and each rank in it, runs in a fork of that. The engine's own output goes to standard error.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import copy
import enum
import json
import os
import pickle
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

from forks import Refused, in_child

# A question takes 3 to 60 s after the import on two slow cores; five times the slowest seen.
SECONDS_A_JOB = 300.0
# The groups whose sizes are set by hand, by their name in the engine and the setting that gives the size.
WORLD = ("_TP", "tensor_parallel_size"), ("_PP", "pipeline_parallel_size"), ("_DP", "data_parallel_size")


def import_engine() -> None:
    """Load all that every job needs, once."""
    import vllm.engine.arg_utils
    import vllm.model_executor.models.registry
    import vllm.v1.worker.gpu_model_runner  # noqa: F401


def engine_parser() -> Any:
    """The release's `vllm serve` parser; what it would print before it leaves becomes a Refused."""
    import importlib

    from vllm.utils.argparse_utils import FlexibleArgumentParser

    for home in ("vllm.entrypoints.openai.cli_args", "vllm.entrypoints.common.cli_args"):
        with contextlib.suppress(ModuleNotFoundError):
            arguments = importlib.import_module(home)
            parser = arguments.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
            parser.checked = arguments.validate_parsed_serve_args
            break
    else:
        raise Refused("parser", "this release keeps its `vllm serve` parser where podwright does not look")

    def refuse(message: str) -> None:
        raise Refused("parser", message)

    parser.error = refuse
    return parser


def find_parsers(words: Any) -> None:
    """Look the named parsers up, as the server does before it serves; a tool parser only where tools are chosen. Raises KeyError.

    The one for reasoning then goes: the configuration would open the tokenizer for it, which is not here.
    """
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    if name := getattr(words, "reasoning_parser", None):
        ReasoningParserManager.get_reasoning_parser(name)
        words.reasoning_parser = ""
    if words.enable_auto_tool_choice:
        ToolParserManager.get_tool_parser(words.tool_call_parser)


def configuration(argv: list[str]) -> Any:
    """The engine's configuration for a command line. Raises Refused."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    try:
        parser = engine_parser()
        words = parser.parse_args(argv)
        parser.checked(words)
        find_parsers(words)
    except (SystemExit, ValueError, TypeError, KeyError) as error:
        raise Refused("parser", f"{type(error).__name__}: {error}") from error
    words.model = words.model_tag or words.model
    try:
        return AsyncEngineArgs.from_cli_args(words).create_engine_config(UsageContext.OPENAI_API_SERVER)
    except Exception as error:
        raise Refused("configuration", f"{type(error).__name__}: {error}") from error


def resolved(config: Any) -> dict[str, Any]:
    """What the configuration became, as plain values."""
    cache, scheduler, model, parallel = config.cache_config, config.scheduler_config, config.model_config, config.parallel_config
    rope = getattr(model.hf_text_config, "rope_parameters", None)
    return {
        "runner": "V2" if getattr(config, "use_v2_model_runner", False) else "V1",
        "architecture": next(iter(model.architectures or [""])),
        "dtype": str(model.dtype).removeprefix("torch."),
        "quantization": model.quantization,
        "max_model_len": model.max_model_len,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "enable_chunked_prefill": scheduler.enable_chunked_prefill,
        "async_scheduling": bool(scheduler.async_scheduling),
        "enable_prefix_caching": bool(cache.enable_prefix_caching),
        "kv_cache_dtype": str(cache.cache_dtype),
        "mamba_cache_mode": cache.mamba_cache_mode if model.is_hybrid else None,
        "mamba_ssm_cache_dtype": str(cache.mamba_ssm_cache_dtype),
        "gpu_memory_utilization": cache.gpu_memory_utilization,
        "tensor_parallel_size": parallel.tensor_parallel_size,
        "pipeline_parallel_size": parallel.pipeline_parallel_size,
        "data_parallel_size": parallel.data_parallel_size,
        "enable_expert_parallel": parallel.enable_expert_parallel,
        "cudagraph_mode": getattr(config.compilation_config.cudagraph_mode, "name", str(config.compilation_config.cudagraph_mode)),
        "rope": {str(key): value for key, value in rope.items() if isinstance(value, (str, int, float, bool, list, dict))}
        if rope
        else None,
    }


@contextlib.contextmanager
def nothing_on_the_card() -> Iterator[None]:
    """Tensors that would go to the card go to the meta device, streams and events are empty shells, unknown kernels are kept."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Meta(TorchFunctionMode):
        """Changes the device of every tensor that is made."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            device = kwargs.get("device")
            if function in (torch.full, torch.arange) and device is None and kwargs.get("dtype") == torch.int32:
                kwargs["device"] = "cpu"  # Expert parallelism counts its own experts in such a tensor.
            elif device is not None and not str(device).startswith(("cpu", "meta")):
                kwargs["device"] = "meta"
            return function(*args, **kwargs)

    class Shell:
        """Stands for a stream or an event."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    torch.accelerator.set_device_index = lambda *args, **kwargs: None
    torch.cuda.Stream = torch.cuda.Event = Shell
    torch._ops.is_building = True
    with torch.device("meta"), Meta():
        yield


def join_ranks(config: Any, rank: int) -> None:
    """Believe to be that rank among all tensor-parallel ranks of all pipeline stages, without the others."""
    from vllm.distributed import ensure_model_parallel_initialized, init_distributed_environment, parallel_state

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    parallel = copy.copy(config.parallel_config)
    sizes = {name: getattr(parallel, field) for name, field in WORLD}
    for _, field in WORLD:
        setattr(config.parallel_config, field, 1)
    init_distributed_environment(1, 0, f"tcp://127.0.0.1:{port}", 0, backend="gloo")
    ensure_model_parallel_initialized(1, 1)
    for name, field in WORLD:
        setattr(config.parallel_config, field, sizes[name])
        getattr(parallel_state, name).world_size = sizes[name]
    # Ranks of a stage come first: the engine's order is stages, and tensor-parallel ranks within them.
    stage, within = divmod(rank, sizes["_TP"])
    config.parallel_config.rank = rank
    parallel_state._TP.rank_in_group = within
    parallel_state._PP.rank_in_group, parallel_state._PP.rank = stage, stage
    parallel_state._PP.ranks = list(range(sizes["_PP"]))
    if parallel_state._EP is not None:
        parallel_state._EP.world_size, parallel_state._EP.rank_in_group = sizes["_TP"] * sizes["_DP"], within


def layers_of(model: Any) -> int | None:
    """How many of the network's layers this pipeline stage holds; None for a network that does not say."""
    ends = ((getattr(module, "start_layer", None), getattr(module, "end_layer", None)) for module in model.modules())
    return next((end - start for start, end in ends if isinstance(start, int) and isinstance(end, int)), None)


def draft_bytes(config: Any) -> int:
    """Bytes of the draft head that the checkpoint itself carries, without what it shares with the target; 0 where there is none.

    Of a pipeline only the last stage drafts.
    """
    from vllm.distributed import get_pp_group
    from vllm.model_executor.model_loader.utils import initialize_model

    speculation = config.speculative_config
    if speculation is None or speculation.method != "mtp" or not get_pp_group().is_last_rank:
        return 0
    draft = initialize_model(vllm_config=config, model_config=speculation.draft_model_config, prefix="draft_model")
    return sum(p.numel() * p.element_size() for name, p in draft.named_parameters() if "embed_tokens" not in name and "lm_head" not in name)


def kernel_names(module: Any) -> str:
    """A layer's method and, below it, the scheme, backend and kernel that were chosen for this card."""
    method = module.quant_method
    names = [type(method).__name__]
    for holder in (module, method, getattr(module, "scheme", None), getattr(method, "scheme", None)):
        for key, value in sorted(vars(holder).items()) if holder is not None else ():
            if key in ("scheme", "kernel") and value is not None and not isinstance(value, (str, dict)):
                names.append(type(value).__name__)
            elif key.endswith("_backend") and isinstance(value, enum.Enum):
                names.append(value.name)
    return "/".join(dict.fromkeys(names))


def backends(config: Any, model: Any) -> dict[str, dict[str, int]]:
    """How many layers use which attention, linear and expert kernels."""
    from vllm.config import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    layers = get_layers_from_vllm_config(config, AttentionLayerBase).values()
    found = {
        "attention": collections.Counter(layer.get_attn_backend().get_name() for layer in layers),
        "linear": collections.Counter(),
        "experts": collections.Counter(),
    }
    for module in model.modules():
        if getattr(module, "quant_method", None) is None:
            continue
        ancestry = {base.__name__ for base in type(module).__mro__}
        if any("MoE" in name or name == "RoutedExperts" for name in ancestry):
            found["experts"][kernel_names(module)] += 1
        elif "LinearBase" in ancestry:
            found["linear"][kernel_names(module)] += 1
    return {kind: dict(counted) for kind, counted in found.items()}


def cache_specs(config: Any) -> dict[str, Any]:
    """The KV cache spec of each layer that has one."""
    from vllm.config import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    found = {name: layer.get_kv_cache_spec(config) for name, layer in get_layers_from_vllm_config(config, AttentionLayerBase).items()}
    return {name: spec for name, spec in found.items() if spec is not None}


def shown_specs(specs: dict[str, Any]) -> list[dict[str, Any]]:
    """Specs counted by what they say: kind, tokens of a block, bytes of its page with and without padding."""
    counted = collections.Counter(
        (type(spec).__name__, spec.block_size, spec.page_size_bytes, getattr(spec, "real_page_size_bytes", spec.page_size_bytes))
        for spec in specs.values()
    )
    return [
        {"kind": kind, "block_size": block, "page_bytes": page, "real_page_bytes": real, "layers": layers}
        for (kind, block, page, real), layers in sorted(counted.items())
    ]


def divided(config: Any, specs: list[dict[str, Any]], kv_bytes: int) -> dict[str, Any] | None:
    """How the release divides that much memory of each rank, from the specs of all; None for one that keeps it elsewhere.

    Raises Refused where one window does not fit.
    """
    from vllm.v1.core import kv_cache_utils

    if not hasattr(kv_cache_utils, "get_kv_cache_configs"):
        return None
    try:
        found = kv_cache_utils.get_kv_cache_configs(config, specs, [kv_bytes] * len(specs))[0]
    except ValueError as error:
        raise Refused("cache", f"ValueError: {error}") from error
    concurrency = kv_cache_utils.get_max_concurrency_for_kv_cache_config(config, found)
    return {
        "num_blocks": found.num_blocks,
        "concurrency": concurrency,
        "tokens": int(concurrency * config.model_config.max_model_len),
        "groups": len(found.kv_cache_groups),
    }


def built(config: Any, rank: int, kv_bytes: int | None, earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """One rank of the model: its bytes, backends, KV cache specs. The last one divides the cache of all. Raises Refused."""
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.platforms import current_platform
    from vllm.utils.torch_utils import set_default_torch_dtype

    try:
        with set_current_vllm_config(config):
            current_platform.check_if_supports_dtype(config.model_config.dtype)  # The first that a worker does on its card.
            join_ranks(config, rank)
            with set_default_torch_dtype(config.model_config.dtype), nothing_on_the_card():
                model = initialize_model(config)
                draft = draft_bytes(config)
            current_platform.update_block_size_for_backend(config)
            specs = cache_specs(config)
            found = {"backends": backends(config, model), "block_size": config.cache_config.block_size, "kv_specs": shown_specs(specs)}
    except Exception as error:
        if os.environ.get("PODWRIGHT_TRACE"):
            traceback.print_exc()
        # What the meta device cannot do is no word of the engine's about the card.
        beyond = isinstance(error, (NotImplementedError, RuntimeError)) and ("meta tensor" in str(error) or "register_meta" in str(error))
        raise Refused("none" if beyond else "model", f"{type(error).__name__}: {error}") from error
    sizes = [p.numel() * p.element_size() for p in model.parameters()]
    every = [*(pickle.loads(base64.b64decode(one["specs"])) for one in earlier), specs]
    with set_current_vllm_config(config):
        is_last = rank == config.parallel_config.tensor_parallel_size * config.parallel_config.pipeline_parallel_size - 1
        cache = divided(config, every, kv_bytes) if is_last and kv_bytes and any(every) else None
    return {
        "rank": rank,
        "stage": rank // config.parallel_config.tensor_parallel_size,
        "layers": layers_of(model),
        "parameters": sum(p.numel() for p in model.parameters()),
        "parameter_bytes": sum(sizes) + draft,
        "draft_bytes": draft,
        **found,
        "cache": cache,
        "specs": base64.b64encode(pickle.dumps(specs)).decode(),
    }


def answered(job: dict[str, Any], deadline: float) -> dict[str, Any]:
    """One job's answer; runs in a fork."""
    os.environ.update(job.get("env") or {})
    config = configuration([job["model"], *job["argv"], "--skip-tokenizer-init"])
    answer: dict[str, Any] = {"accepted": True, "stage": None, "error": None, "resolved": resolved(config)}
    ranks: list[dict[str, Any]] = []
    world = config.parallel_config.tensor_parallel_size * config.parallel_config.pipeline_parallel_size
    for rank in range(world) if job.get("build") else ():
        found = in_child(lambda rank=rank: built(config, rank, job.get("kv_bytes"), ranks), deadline)
        if "error" in found:
            return {**answer, **found, "ranks": without_specs(ranks)}
        ranks.append(found)
    for first in ranks[:1]:
        first["cache"] = ranks[-1]["cache"]
    return {**answer, "ranks": without_specs(ranks)}


def without_specs(ranks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is told about ranks: specs in the engine's own form are for the judge alone."""
    return [{name: value for name, value in rank.items() if name != "specs"} for rank in ranks]


def main() -> None:
    """Answer the jobs on standard input."""
    jobs = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import_engine()
    for job in jobs:
        started = time.monotonic()
        answer = in_child(lambda job=job, end=started + SECONDS_A_JOB: answered(job, end), started + SECONDS_A_JOB + 5)
        out.write(json.dumps({"id": job["id"], "seconds": round(time.monotonic() - started, 1), **answer}) + "\n")


if __name__ == "__main__":
    main()
