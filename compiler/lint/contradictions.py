"""Pairs of engine options that exclude each other, whatever the model and the card: what the engine's own configuration checks first.

Each was read in the source of 0.26.0, 0.27.1 and 0.33.0. A check gives what is wrong in words, or None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from compiler.lint.facts import environment, mapping, number, speculation_method
from compiler.lint.rule import Subject

_GRAMMARS = ("xgrammar", "guidance")
_MICROBATCHING = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


@dataclasses.dataclass(frozen=True, slots=True)
class Contradiction:
    """`option` is where the finding points; `check` gives what is wrong, None where nothing is; `fix` is the way out."""

    option: str
    check: Callable[[Subject], str | None]
    fix: str


def _on(subject: Subject, name: str) -> bool:
    return subject.setting(name) is True


def _without(option: str, needed: str) -> Callable[[Subject], str | None]:
    return lambda subject: f"{option} without {needed}" if _on(subject, option) and not _on(subject, needed) else None


def _redundant(subject: Subject) -> str | None:
    spare = mapping(subject, "eplb_config").get("num_redundant_experts")
    return f"{spare} redundant experts, and enable_eplb is off" if spare and not _on(subject, "enable_eplb") else None


def _context_parallel(subject: Subject) -> str | None:
    ranks, shares = subject.plan.engine.tensor_parallel, number(subject, "decode_context_parallel_size")
    is_uneven = shares is not None and shares > 1 and ranks % shares != 0
    return f"{ranks} tensor-parallel ranks cannot be divided by decode_context_parallel_size {shares}" if is_uneven else None


def _adapters(subject: Subject) -> str | None:
    kept, used = number(subject, "max_cpu_loras"), number(subject, "max_loras") or 1
    return f"max_cpu_loras {kept} is below max_loras {used}" if kept is not None and kept < used else None


def _graph_sizes(subject: Subject) -> str | None:
    sizes, most = subject.setting("cudagraph_capture_sizes"), number(subject, "max_cudagraph_capture_size")
    numbers = [int(size) for size in sizes if str(size).isdigit()] if isinstance(sizes, (tuple, list)) else []
    is_other = bool(numbers) and most is not None and max(numbers) != most
    return f"the largest of cudagraph_capture_sizes is {max(numbers)}, and max_cudagraph_capture_size {most}" if is_other else None


def _both(one: str, other: str) -> Callable[[Subject], str | None]:
    return lambda subject: f"{one} and {other} together" if subject.setting(one) and subject.setting(other) else None


def _backend_twice(subject: Subject) -> str | None:
    is_twice = bool(subject.setting("attention_backend")) and bool(mapping(subject, "attention_config").get("backend"))
    return "attention_backend and attention_config.backend name a backend each" if is_twice else None


def _local_replicas(subject: Subject) -> str | None:
    local, replicas = number(subject, "data_parallel_size_local"), subject.plan.engine.data_parallel
    return f"{local} local replicas of {replicas} in all" if local is not None and local > replicas else None


def _traces(subject: Subject) -> str | None:
    is_lost = bool(subject.setting("collect_detailed_traces")) and not subject.setting("otlp_traces_endpoint")
    return "collect_detailed_traces without otlp_traces_endpoint" if is_lost else None


def _white_space(subject: Subject) -> str | None:
    config = mapping(subject, "structured_outputs_config")
    backend: Any = config.get("backend", "auto")
    if config.get("disable_any_whitespace") and backend not in _GRAMMARS:
        return f"disable_any_whitespace with the backend {backend}, and only {' and '.join(_GRAMMARS)} have it"
    is_alone = config.get("disable_additional_properties") and backend != "guidance"
    return f"disable_additional_properties with the backend {backend}, and only guidance has it" if is_alone else None


def _connector_role(subject: Subject) -> str | None:
    config = mapping(subject, "kv_transfer_config")
    return f"the KV connector {config['kv_connector']} without kv_role" if config.get("kv_connector") and not config.get("kv_role") else None


def _adapters_at_run_time(subject: Subject) -> str | None:
    servers = number(subject, "api_server_count") or 1
    is_shared = servers > 1 and environment(subject, "VLLM_ALLOW_RUNTIME_LORA_UPDATING") not in (None, "", "0", "false", "False")
    return f"adapters may be loaded while {servers} API servers run, and each would know its own" if is_shared else None


def _microbatches(subject: Subject) -> str | None:
    backend = subject.setting("all2all_backend")
    is_refused = _on(subject, "enable_dbo") and backend not in _MICROBATCHING
    return f"enable_dbo with all2all_backend {backend or 'left to the engine'}" if is_refused else None


def _fast_prefill(subject: Subject) -> str | None:
    is_wrong = _on(subject, "kv_sharing_fast_prefill") and speculation_method(subject) in ("eagle", "eagle3")
    return "kv_sharing_fast_prefill with a draft head that needs the logits of the whole prompt" if is_wrong else None


def _metrics(subject: Subject) -> str | None:
    is_lost = _on(subject, "enable_per_request_metrics") and _on(subject, "disable_log_stats")
    return "enable_per_request_metrics with disable_log_stats" if is_lost else None


def _numa(subject: Subject) -> str | None:
    named = next((name for name in ("numa_bind_nodes", "numa_bind_cpus") if subject.setting(name)), None)
    return f"{named} without numa_bind" if named and not _on(subject, "numa_bind") else None


def _modules(subject: Subject) -> str | None:
    return "lora_modules without enable_lora" if subject.setting("lora_modules") and not _on(subject, "enable_lora") else None


CONTRADICTIONS = (
    Contradiction("enable_eplb", _without("enable_eplb", "enable_expert_parallel"), "add enable_expert_parallel: true, or drop enable_eplb"),
    Contradiction("eplb_config", _redundant, "add enable_eplb: true, or drop num_redundant_experts"),
    Contradiction("decode_context_parallel_size", _context_parallel, "take a size that divides tensor_parallel_size"),
    Contradiction("max_cpu_loras", _adapters, "raise max_cpu_loras to max_loras or more, or leave it out"),
    Contradiction("enable_log_outputs", _without("enable_log_outputs", "enable_log_requests"), "add enable_log_requests: true"),
    Contradiction("max_cudagraph_capture_size", _graph_sizes, "leave one of the two out"),
    Contradiction("attention_backend", _backend_twice, "keep attention_backend alone"),
    Contradiction("api_server_count", _both("headless", "api_server_count"), "drop api_server_count: a headless node runs no API server"),
    Contradiction("data_parallel_size_local", _local_replicas, "lower data_parallel_size_local to data_parallel_size or less"),
    Contradiction("data_parallel_hybrid_lb", _both("data_parallel_hybrid_lb", "data_parallel_external_lb"), "keep one way to spread requests"),
    Contradiction("collect_detailed_traces", _traces, "name otlp_traces_endpoint, or drop collect_detailed_traces"),
    Contradiction("structured_outputs_config", _white_space, "name the backend that has it, or drop the key"),
    Contradiction("kv_transfer_config", _connector_role, "add kv_role: kv_producer, kv_consumer or kv_both"),
    Contradiction("api_server_count", _adapters_at_run_time, "run one API server, or name the adapters at the start"),
    Contradiction("enable_dbo", _microbatches, f"set all2all_backend to one of {', '.join(_MICROBATCHING)}, or drop enable_dbo"),
    Contradiction("kv_sharing_fast_prefill", _fast_prefill, "drop one of the two"),
    Contradiction("enable_per_request_metrics", _metrics, "drop one of the two"),
    Contradiction("lora_modules", _modules, "add enable_lora: true"),
    Contradiction("numa_bind_nodes", _numa, "add numa_bind: true, or drop the list"),
)
