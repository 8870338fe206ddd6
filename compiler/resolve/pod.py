"""The pod around the engine: who listens where, disk and memory, secrets, watchdog, caches, desktop."""

from __future__ import annotations

import hashlib
import math

from compiler.plan.core import (
    BridgePlan,
    CompileCachePlan,
    DesktopPlan,
    EnginePlan,
    EnvVar,
    JournalPlan,
    KvStorePlan,
    ModelPlan,
    NetworkPlan,
    Port,
    Process,
    PublishPlan,
    SecretPlan,
    StoragePlan,
    WatchdogPlan,
)  # fmt: skip
from compiler.resolve.ledger import Ledger
from compiler.schema.specset import SpecSet
from compiler.units import GIB

GB = 10**9
# nginx of RunPod's official images listens here when their /start.sh runs (deployment notes; runpod/containers nginx.conf).
NGINX_PORTS = (3001, 7270, 7861, 8001, 8081, 9091)
SSH_PORT = 22
# Beside the weights: engine caches, compile caches, logs and the temporary copies of a download.
WORKING_DISK_GB = 20
LARGEST_DRAFT = 3_800_000_000  # Qwen3.8-27B-DFlash2, from the bootstrap's comments.
VOLUME = "/workspace"
HF_HOME = "/root/.cache/huggingface"
VLLM_CACHE = "/root/.cache/vllm"
API_KEY = "PODWRIGHT_API_KEY"
PUBLIC_KEY = "PODWRIGHT_PUBLIC_KEY"
# Settings that change the compiled graph; the source documents' key left most of them out and restored stale graphs.
GRAPH_SETTINGS = (
    "attention_backend", "compilation_config", "data_parallel_size", "dtype", "enable_expert_parallel", "enable_prefix_caching", "hf_overrides", "kv_cache_dtype",
    "limit_mm_per_prompt", "linear_backend", "mamba_backend", "mamba_cache_mode", "mamba_ssm_cache_dtype", "max_model_len", "max_num_batched_tokens", "max_num_seqs",
    "moe_backend", "optimization_level", "pipeline_parallel_size", "quantization", "speculative_config", "tensor_parallel_size",
)  # fmt: skip
# Reasoning effort to thinking tokens, from the deployment notes (bridge v68, engine patch v55); max is unlimited.
EFFORT_BUDGETS: dict[str, int | None] = {"low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768, "max": None}


def endpoint(specs: SpecSet) -> tuple[str, int]:
    """Host and port of the engine: loopback behind a bridge, else the port that clients reach."""
    if specs.profile.bridge.mode == "off":
        return "0.0.0.0", specs.profile.bridge.port
    return "127.0.0.1", specs.profile.engine_port


def resolve_network(specs: SpecSet, ledger: Ledger) -> NetworkPlan:
    """Exposed and inner ports."""
    profile = specs.profile
    host, engine_port = endpoint(specs)
    ports = [Port(profile.bridge.port, "http", "endpoint")]
    if profile.desktop is not None:
        ports.append(Port(profile.desktop.port, "http", "desktop"))
    if profile.container.ssh:
        ports.append(Port(SSH_PORT, "tcp", "ssh"))
    listening = {profile.bridge.port, engine_port} | {p.number for p in ports}
    if profile.kv_store is not None:
        listening |= {profile.kv_store.http_port, profile.kv_store.zmq_port}
    ledger.computed("network.ports", [str(p) for p in ports], "The endpoint, and what the profile switched on besides.")
    ledger.computed("network.engine_port", engine_port, "The engine stays on loopback behind the bridge." if host == "127.0.0.1" else "No bridge: clients reach the engine itself.")
    return NetworkPlan(tuple(ports), profile.bridge.port, engine_port, host, tuple(sorted(listening)), NGINX_PORTS)


def resolve_processes(specs: SpecSet, engine: EnginePlan, network: NetworkPlan) -> tuple[Process, ...]:
    """Long-running programs with their ports."""
    found = [Process("engine", engine.argv, network.engine_host, network.engine_port)]
    if specs.profile.bridge.mode != "off":
        found.append(Process("bridge", ("python", "-m", "pod.bridge"), "0.0.0.0", specs.profile.bridge.port))
    store = specs.profile.kv_store
    if store is not None:
        argv = ("lmcache", "server", "--chunk-size", str(store.chunk), "--separate-object-groups", "--l1-size-gb", str(store.size_gib), "--eviction-policy", "LRU")
        found.append(Process("kv-store", argv, "127.0.0.1", store.http_port))
    desktop = specs.profile.desktop
    if desktop is not None:
        found.append(Process("desktop", ("python", "-m", "pod.desktop", "--port", str(desktop.port)), "0.0.0.0", desktop.port))
    return tuple(found)


def resolve_storage(specs: SpecSet, ledger: Ledger, models: tuple[ModelPlan, ...]) -> StoragePlan:
    """Container disk and host memory that all models of the profile need."""
    drafts = sum(_draft_bytes(member) for member in (specs, *specs.swap))
    needed = round((sum(m.disk_bytes for m in models) + drafts) / GB + WORKING_DISK_GB, 1)
    asked, wanted = specs.profile.deploy.container_disk_gb, specs.model.resources.disk
    disk = asked or max(math.ceil(needed / 10) * 10, math.ceil((wanted or 0) / GB))
    if asked is None:
        ledger.computed("storage.container_disk_gb", disk, f"Weights and drafts with {WORKING_DISK_GB} GB for caches and logs, rounded up to tens.")
    ram = specs.profile.deploy.min_ram_gb or (math.ceil(specs.model.resources.ram / GB) if specs.model.resources.ram else None)
    if specs.profile.kv_store is not None and ram is None:
        ram = math.ceil(specs.profile.kv_store.size_gib * GIB / GB) + 16
    ledger.computed("storage.min_ram_gb", ram, specs.model.resources.reason or "What the model asks for.")
    volume = specs.profile.deploy.network_volume
    return StoragePlan(disk, needed, ram, f"{VOLUME}/huggingface" if volume else HF_HOME, VLLM_CACHE, volume, VOLUME if volume else None)


def _draft_bytes(specs: SpecSet) -> int:
    """Bytes of the draft model: as locked, else as its spec states, else the largest that the documents name."""
    draft = specs.profile.speculation.draft if specs.profile.speculation else None
    if draft is None:
        return 0
    locked = specs.lock.repos.get(draft.repo)
    return (locked.size if locked else None) or draft.loaded or LARGEST_DRAFT


def resolve_secrets(specs: SpecSet, ledger: Ledger) -> tuple[SecretPlan, ...]:
    """Secrets that the profile names, and those that its choices imply."""
    named = {s.env: SecretPlan(s.env, s.name or provider_name(s.env), s.required, s.purpose) for s in specs.profile.secrets}
    implied: list[tuple[str, bool, str]] = []
    if specs.model.checkpoint.repo:
        needed = specs.model.checkpoint.gated or specs.profile.journal is not None or specs.profile.compile_cache is not None
        implied.append(("HF_TOKEN", needed, "Read access to the Hugging Face Hub; write access where journal or compile cache are published."))
    if specs.profile.bridge.require_key:
        implied.append((API_KEY, True, "The key that clients of the endpoint must send."))
    if specs.profile.desktop is not None:
        implied.append((specs.profile.desktop.password_env, True, "Password of the remote desktop."))
    for env, required, purpose in implied:
        if env not in named:
            named[env] = SecretPlan(env, provider_name(env), required, purpose)
            ledger.computed(f"secrets.{env}", provider_name(env), purpose)
    for secret in specs.profile.secrets:
        ledger.record(f"secrets.{secret.env}", named[secret.env].provider_name, "profile", str(specs.place("profile", "secrets")), secret.purpose)
    return tuple(named[env] for env in sorted(named))


def provider_name(env: str) -> str:
    """The usual name of a provider's secret for a variable: `HF_TOKEN` is kept as `hf-token`."""
    return env.lower().replace("_", "-")


def resolve_bridge(specs: SpecSet, ledger: Ledger, engine: EnginePlan) -> BridgePlan:
    """The endpoint in front of the engine."""
    bridge = specs.profile.bridge
    ledger.section("bridge", bridge, "bridge")
    supported = not (engine.runner == "V2" and "v2-runner-refuses-thinking-budget" in specs.engine.limits)
    ledger.computed("bridge.thinking_budget_supported", supported, f"Model runner {engine.runner} of release {engine.release}.")
    return BridgePlan(
        bridge.mode, bridge.port, bridge.ping, bridge.usage_interval, dict(EFFORT_BUDGETS), supported, API_KEY if bridge.require_key else None, bridge.guard, engine.max_model_len,
    )  # fmt: skip


def resolve_watchdog(specs: SpecSet, ledger: Ledger) -> WatchdogPlan:
    """Probes of a serving engine."""
    w = specs.profile.watchdog
    ledger.section("watchdog", w, "watchdog")
    return WatchdogPlan(w.probe_interval, w.probe_timeout, w.probe_tokens, w.failures_before_restart, w.grace_probes, w.boot_stall, w.crash_loop_restarts, w.bridge_failures)


def resolve_compile_cache(specs: SpecSet, ledger: Ledger, model: ModelPlan, engine: EnginePlan) -> CompileCachePlan | None:
    """Where compiled graphs are kept, under a key of everything that changes them. The pod adds the driver's major."""
    chosen = specs.profile.compile_cache
    if chosen is None:
        return None
    plan = compile_cache_of(chosen.repo, specs, model, engine)
    ledger.section("compile_cache", chosen, "compile_cache")
    ledger.computed("compile_cache.key", plan.key, "Model commit, GPU, engine release, torch and every setting that changes the graph.")
    return plan


def compile_cache_of(repo: str, specs: SpecSet, model: ModelPlan, engine: EnginePlan) -> CompileCachePlan:
    """The cache of one engine in `repo`: its own, or that of another engine of a swap set."""
    words = {s.name: " ".join(s.flags) for s in engine.settings}
    parts = [("model", f"{model.repo}@{model.revision or 'unlocked'}"), ("gpu", f"{specs.hardware.count} x {specs.hardware.gpu.name}"), ("engine", f"{engine.distribution} {engine.release}"), ("torch", specs.engine.torch or "")]
    parts += [(name, words[name]) for name in GRAPH_SETTINGS if name in words]
    key = hashlib.sha256("\n".join(f"{name}={value}" for name, value in parts).encode()).hexdigest()[:16]
    return CompileCachePlan(repo, key, tuple(EnvVar(name, value) for name, value in parts))


def resolve_journal(specs: SpecSet, ledger: Ledger) -> JournalPlan | None:
    """The boot journal outside the pod."""
    chosen = specs.profile.journal
    if chosen is None:
        return None
    ledger.section("journal", chosen, "journal")
    return JournalPlan(chosen.repo, chosen.boot_period, chosen.period)


def resolve_publish(specs: SpecSet, ledger: Ledger) -> PublishPlan:
    """What running pods follow."""
    chosen = specs.profile.publish
    path = f"{specs.name}/publication.json"
    if chosen is None:
        ledger.default("publish.repo", None, "Nothing is followed: a change of the profile needs a new pod.")
        return PublishPlan(None, path, 30.0, "idle", PUBLIC_KEY, False)
    ledger.section("publish", chosen, "publish")
    return PublishPlan(chosen.repo, path, chosen.poll, chosen.when, PUBLIC_KEY, chosen.unsigned)


def resolve_desktop(specs: SpecSet, ledger: Ledger) -> DesktopPlan | None:
    """The remote desktop."""
    chosen = specs.profile.desktop
    if chosen is None:
        return None
    ledger.section("desktop", chosen, "desktop")
    return DesktopPlan(chosen.port, chosen.password_env)


def resolve_kv_store(specs: SpecSet, ledger: Ledger) -> KvStorePlan | None:
    """The LMCache server."""
    chosen = specs.profile.kv_store
    if chosen is None:
        return None
    ledger.section("kv_store", chosen, "kv_store")
    return KvStorePlan(chosen.size_gib, chosen.chunk, chosen.zmq_port, chosen.http_port)
