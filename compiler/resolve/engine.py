"""The engine plan: settings, environment and command line of one model on one hardware."""

from __future__ import annotations

import dataclasses

from compiler.plan.core import EnginePlan, EnvVar, ModelPlan
from compiler.plan.memory import MemoryPlan
from compiler.resolve.context import decide_window, decide_yarn
from compiler.resolve.ledger import Ledger
from compiler.resolve.model import model_path, resolve_model, revision_of, served_names
from compiler.resolve.planner_inputs import effective_kv_dtype, measured_starts, planned_memory, planner_inputs
from compiler.resolve.settings import Settings, layered_settings, rendered_settings
from compiler.resolve.speculation import decide_speculation
from compiler.schema.base import Choice
from compiler.schema.specset import SpecKind, SpecSet

# KV cache types that dequantize in scratch memory at each prefill slice need room outside the planned share.
TURBOQUANT_UTILIZATION = 0.85
DSPARK_UTILIZATION = 0.90
UTILIZATION = 0.90
BATCHED_TOKENS = 8192
SEQUENCES = 64


def resolve_engine(specs: SpecSet, ledger: Ledger, host: str, port: int) -> tuple[ModelPlan, EnginePlan, MemoryPlan]:
    """Model, engine and memory of a profile whose engine listens on `host:port`."""
    settings = layered_settings(specs, ledger)
    drafts = decide_speculation(settings, specs)
    _decide_parallelism(settings, specs)
    _decide_defaults(settings, specs)
    env = _environment(specs, ledger)
    inputs = planner_inputs(specs, settings, env)
    starts = measured_starts(specs, settings, env)
    window = decide_window(settings, specs, lambda length: planned_memory(inputs, starts, length))
    factor = decide_yarn(settings, specs, window)
    inputs = dataclasses.replace(inputs, max_model_len=window)
    memory = planned_memory(inputs, starts)
    model = resolve_model(specs, window, factor)
    _decide_identity(settings, specs, model, host, port)
    rendered = rendered_settings(settings.values, specs.flags)
    argv = ("vllm", "serve", model_path(specs), *(word for setting in rendered for word in setting.flags))
    engine = EnginePlan(
        slug=specs.profile.engine or "", release=specs.engine.release, distribution=specs.engine.distribution, cuda=specs.engine.cuda, argv=argv, settings=rendered,
        env=tuple(EnvVar(name, env[name], _why(ledger, name)) for name in sorted(env)), runner=inputs.model_runner, max_model_len=window,
        max_num_seqs=inputs.sequences, max_num_batched_tokens=inputs.batch,
        data_parallel=settings.whole("data_parallel_size", 1), tensor_parallel=settings.whole("tensor_parallel_size", 1),
        kv_cache_dtype=effective_kv_dtype(specs.model, settings.get("kv_cache_dtype")), drafts=drafts,
        speculation=str(settings.mapping("speculative_config").get("method", "off")),
    )  # fmt: skip
    return model, engine, memory


def _decide_parallelism(settings: Settings, specs: SpecSet) -> None:
    replicas = settings.whole("data_parallel_size", 1) * settings.whole("pipeline_parallel_size", 1)
    count = max(1, specs.hardware.count // replicas)
    settings.compute("tensor_parallel_size", count, f"All {specs.hardware.count} GPUs of the hardware, divided by {replicas} replicas or stages; a GPU left out would idle unseen.")


def _decide_defaults(settings: Settings, specs: SpecSet) -> None:
    """Values that no spec chose: the measured defaults of the source documents."""
    is_cpu = specs.hardware.gpu.architecture == "cpu"
    settings.default("max_num_batched_tokens", BATCHED_TOKENS, "8,192 gained 10 % over 4,096; twice that freezes the decodes of others during a prefill slice.", ("nemotron-blackwell/nemotron-pro6000-batched8192-agg8",))
    settings.default("max_num_seqs", SEQUENCES, "64 sequences: fewer cost aggregate throughput, and the engine's 1,024 on large cards can exceed the state blocks of a hybrid.")
    if not is_cpu:
        value, reason, evidence = _utilization(settings)
        settings.default("gpu_memory_utilization", value, reason, evidence)
    settings.default("enable_prefix_caching", specs.model.architecture.prefix_caching, "Prefixes are kept wherever the engine can: agents resend theirs at each turn.", ("nemotron-blackwell/nemotron-ttft-warm",))
    if _keeps_states(specs) and settings.get("enable_prefix_caching"):
        settings.default("mamba_cache_mode", "align", "`all` keeps the state of every block and divides the KV cache by four.", ("nemotron-ada/nemotron-ada-align-kv", "nemotron-ada/nemotron-ada-all-kv"))
    if not settings.get("speculative_config") and not is_cpu:
        settings.default("async_scheduling", True, "The next step is prepared while the GPU works; only without speculation.", ("nemotron-blackwell/nemotron-pro6000-async-agg8",))
    settings.default("enable_prompt_tokens_details", True, "Without it the engine does not report cached prompt tokens, and clients show a dead cache.")
    _decide_parsers(settings, specs)
    _decide_images(settings, specs)
    if specs.profile.kv_store is not None:
        config = {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both"}
        settings.compute("kv_transfer_config", config, "The LMCache server of this profile keeps evicted blocks in host memory.")


def _utilization(settings: Settings) -> tuple[float, str, tuple[str, ...]]:
    if str(settings.get("kv_cache_dtype", "")).startswith("turboquant"):
        return TURBOQUANT_UTILIZATION, "TurboQuant dequantizes outside the planned share at each prefill slice.", ("qwen38-dense/a40-qwen38-tq-oom-700k",)
    if settings.mapping("speculative_config").get("method") == "dspark":
        return DSPARK_UTILIZATION, "At 0.93 the draft left 220 MiB at graph capture.", ("a40-speculation/dspark-093-graph-capture-free",)
    return UTILIZATION, "Leaves room for graphs and growth outside the engine's own accounting.", ()


def _decide_parsers(settings: Settings, specs: SpecSet) -> None:
    parsers = specs.model.parsers
    where = str(specs.place("model", "parsers"))
    for name, value in (("tool_call_parser", parsers.tool_call), ("reasoning_parser", parsers.reasoning)):
        if value is not None and name not in settings.values:
            settings.values[name] = value
            settings.ledger.record(f"engine.{name}", value, "model", where, "The parser of this model's markup.")
    if settings.get("tool_call_parser"):
        settings.compute("enable_auto_tool_choice", True, "The model may decide to call tools; agents need it.")


def _decide_images(settings: Settings, specs: SpecSet) -> None:
    """Only a model that takes images gets a limit: text models do not need the flag."""
    vision, chosen = specs.model.vision, specs.profile.images
    if vision is None or settings.get("language_model_only"):
        return
    images = chosen.per_request if chosen else vision.images_per_request
    videos = chosen.videos_per_request if chosen else vision.videos_per_request
    limit = {"image": images, "video": videos}
    if "limit_mm_per_prompt" not in settings.values:
        settings.values["limit_mm_per_prompt"] = limit
        origin: SpecKind = "profile" if chosen else "model"
        place = specs.place(origin, "images" if chosen else "vision")
        reason = (chosen.reason if chosen else vision.note) or "Images and videos allowed in one request."
        settings.ledger.record("engine.limit_mm_per_prompt", limit, origin, str(place), reason, chosen.evidence if chosen else vision.evidence)


def _decide_identity(settings: Settings, specs: SpecSet, model: ModelPlan, host: str, port: int) -> None:
    names, reason = served_names(specs, model)
    settings.compute("served_model_name", list(names), reason)
    settings.compute("host", host, "Loopback behind the bridge; all interfaces when clients reach the engine itself.")
    settings.compute("port", port, "Inside the pod. RunPod's official images start an nginx on 8081 and others.")
    revision = revision_of(specs)
    if revision:
        settings.compute("revision", revision, "The commit that was locked, so that every start loads the same weights.")
    if model.tokenizer is not None:
        settings.compute("tokenizer", model.tokenizer.repo, model.tokenizer.why)
        if model.tokenizer.revision:
            settings.compute("tokenizer_revision", model.tokenizer.revision, "The locked commit of the replacement tokenizer.")


def _keeps_states(specs: SpecSet) -> bool:
    return any(layers.kind in ("gdn", "mamba2", "kda", "conv") for layers in specs.model.architecture.kv)


def _environment(specs: SpecSet, ledger: Ledger) -> dict[str, str]:
    """Environment of the engine: release, model, hardware, profile; the last one wins."""
    env: dict[str, str] = {}
    layers: tuple[tuple[SpecKind, dict[str, Choice[str]]], ...] = (
        ("engine", specs.engine.env), ("model", specs.model.env), ("hardware", specs.hardware.env), ("profile", specs.profile.env),
    )  # fmt: skip
    for kind, chosen in layers:
        for name in sorted(chosen):
            env[name] = chosen[name].value
            ledger.choice(f"env.{name}", kind, specs.place(kind, "env", name), chosen[name])
    if "fastokens" in specs.profile.container.extras:
        _default_env(env, ledger, "VLLM_USE_FASTOKENS", "1", "The fastokens extra is installed: 12 % less time to the first token.", ("a40-levers/a40-v45-fastokens-solo",))
    if specs.hardware.gpu.architecture != "cpu":
        _default_env(env, ledger, "VLLM_USE_FLASHINFER_SAMPLER", "0", "The FlashInfer sampler compiles at start and has crashed a worker; it brings no throughput.")
    return env


def _default_env(env: dict[str, str], ledger: Ledger, name: str, value: str, reason: str, evidence: tuple[str, ...] = ()) -> None:
    if name not in env:
        env[name] = value
        ledger.default(f"env.{name}", value, reason, evidence)


def _why(ledger: Ledger, name: str) -> str:
    route = f"{ledger.prefix}env.{name}"
    return next((d.reason for d in ledger.decisions if d.route == route), "")
