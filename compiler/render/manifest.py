"""Plan -> `manifest.json`: what a running pod reads and, once it is signed and published, follows."""

from __future__ import annotations

import json

from pod import contract

from compiler import __version__
from compiler.artifact import Artifact
from compiler.plan import Plan
from compiler.plan.core import EnginePlan, EnvVar, ModelPlan, Override, Setting

PATH = "manifest.json"
HEALTH = contract.Health("/health", 200)
# Any language model continues this at temperature 0, with or without a chat template, a parser or reasoning.
WARM_UP_PATH = "/v1/completions"
WARM_UP_PROMPT = "one two three four five six seven"
WARM_UP_ANSWER = "eight"


def render_manifest(plan: Plan) -> Artifact:
    """`manifest.json`, indented for a reader. What is signed is `Manifest.canonical_bytes`, not this spelling."""
    text = json.dumps(manifest(plan).to_json(), indent=2, ensure_ascii=False, allow_nan=False)
    return Artifact(PATH, f"{text}\n".encode())


def manifest(plan: Plan) -> contract.Manifest:
    """The manifest of a plan."""
    return contract.Manifest(
        schema_version=contract.SCHEMA_VERSION, profile=plan.profile, compiler=__version__, pod=_pod(plan),
        engine=_engine(plan, plan.profile, plan.model, plan.engine), swap=_swap(plan), kv_store=_kv_store(plan),
        bridge=_bridge(plan), supervisor=_supervisor(plan),
    )  # fmt: skip


def _pod(plan: Plan) -> contract.Pod:
    image, hardware = plan.image, plan.hardware
    desktop = contract.Desktop(plan.desktop.port, plan.desktop.password_env) if plan.desktop else None
    return contract.Pod(
        # A built image holds its manifest, so its own digest cannot be in it: the lock would change what the image was built for.
        image=image.name if image.prebaked else image.reference, recipe=image.recipe, prebaked=image.prebaked, distribution=image.distribution, release=image.release,
        venv=image.venv, gpus=hardware.count, gpu_name=hardware.name, compute_capability=hardware.compute_capability,
        min_driver=hardware.min_driver, disk_gb=plan.storage.container_disk_gb, ports=tuple(map(str, plan.network.ports)),
        phases=plan.bootstrap_phases, desktop=desktop,
    )  # fmt: skip


def _engine(plan: Plan, name: str, model: ModelPlan, engine: EnginePlan) -> contract.Engine:
    launch = contract.Launch(
        argv=engine.argv, env=_mapping(engine.env), nccl_conf=_mapping(plan.hardware.nccl_conf), host=plan.network.engine_host,
        port=plan.network.engine_port, health=HEALTH, fetch=_fetches(model, engine),
        config_patches=tuple(contract.ConfigPatch(p.file, p.key_path, p.append, p.reason) for p in model.config_patches),
        script_patches=tuple(contract.ScriptPatch(p.file, p.repo, p.sha256, p.releases, dict(p.expects), p.reason) for p in model.script_patches),
    )  # fmt: skip
    return contract.Engine(
        name=name, served_names=model.served_names, launch=launch, context_window=engine.max_model_len, architecture=model.architecture,
        reasoning=model.reasoning, multimodal=model.multimodal, gated=model.gated, generated=model.generated,
    )  # fmt: skip


def _fetches(model: ModelPlan, engine: EnginePlan) -> tuple[contract.Fetch, ...]:
    own = () if not model.fetched else (contract.Fetch("model", model.repo, model.revision, model.disk_bytes),)
    drafts = tuple(contract.Fetch("draft", draft.repo, draft.revision, None) for draft in engine.drafts)
    tokenizer = (contract.Fetch("tokenizer", model.tokenizer.repo, model.tokenizer.revision, None),) if model.tokenizer else ()
    return (*own, *drafts, *tokenizer)


def _swap(plan: Plan) -> contract.Swap | None:
    if plan.swap is None:
        return None
    others = (m for m in plan.swap.members if m.profile != plan.profile)
    return contract.Swap(tuple(_engine(plan, m.profile, m.model, m.engine) for m in others), plan.swap.preload)


def _kv_store(plan: Plan) -> contract.KvStore | None:
    store = plan.kv_store
    if store is None:
        return None
    argv = next(process.argv for process in plan.processes if process.name == "kv-store")
    return contract.KvStore(argv, store.size_gib, store.chunk_tokens, store.zmq_port, store.http_port)


def _bridge(plan: Plan) -> contract.Bridge:
    bridge = plan.bridge
    return contract.Bridge(
        mode=bridge.mode, host="0.0.0.0", port=bridge.port, ping_s=bridge.ping_seconds, usage_s=bridge.usage_seconds,
        effort_budgets=dict(bridge.effort_budgets), thinking_budget_supported=bridge.thinking_budget_supported,
        api_key_env=bridge.api_key_env, guard=bridge.guard, max_prompt_tokens=bridge.max_prompt_tokens,
    )  # fmt: skip


def _supervisor(plan: Plan) -> contract.Supervisor:
    journal, follow = plan.journal, plan.publish
    return contract.Supervisor(
        watchdog=_watchdog(plan),
        warm_up=contract.WarmUp(WARM_UP_PATH, WARM_UP_PROMPT, plan.watchdog.probe_tokens, None if plan.model.generated else WARM_UP_ANSWER),
        compile_caches=_compile_caches(plan),
        journal=contract.Journal(journal.repo, journal.boot_period_s, journal.period_s) if journal else None,
        follow=contract.Follow(follow.repo, follow.path, follow.poll_seconds, follow.when, follow.public_key_env, follow.allow_unsigned)
        if follow.repo else None,
        overrides=tuple(contract.Override(o.name, o.pattern, o.setting, option, o.effect) for o, option in override_options(plan)),
        secrets=tuple(contract.Secret(s.env, s.required, s.purpose) for s in plan.secrets),
        hf_home=plan.storage.hf_home,
        vllm_cache_root=plan.storage.vllm_cache_root,
        spend=contract.SpendLimits(_scaled(plan.deploy.max_hours, 3600.0), _scaled(plan.deploy.idle_stop_minutes, 60.0)),
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _compile_caches(plan: Plan) -> dict[str, contract.CompileCache]:
    """One for each engine: a swap set's others compile under keys of their own."""
    others = {m.profile: m.compile_cache for m in plan.swap.members} if plan.swap else {}
    caches = {**others, plan.profile: plan.compile_cache}
    return {name: contract.CompileCache(c.repo, c.key, _mapping(c.key_parts)) for name, c in sorted(caches.items()) if c}


def _watchdog(plan: Plan) -> contract.Watchdog:
    w = plan.watchdog
    return contract.Watchdog(
        probe_interval_s=w.probe_interval_s, probe_timeout_s=w.probe_timeout_s, probe_tokens=w.probe_tokens,
        failures_before_restart=w.failures_before_restart, grace_probes=w.grace_probes, boot_stall_s=w.boot_stall_s,
        crash_loop_restarts=w.crash_loop_restarts, bridge_failures_before_restart=w.bridge_failures_before_restart,
    )  # fmt: skip


def override_options(plan: Plan) -> list[tuple[Override, str | None]]:
    """Each lever with the engine's option that it sets; None for a lever of the runtime or the bootstrap."""
    decided = {setting.name: setting for setting in plan.engine.settings}
    return [(o, _option(o.setting, decided.get(o.setting))) for o in plan.overrides]


def _option(name: str, decided: Setting | None) -> str | None:
    """The engine's option of a setting; None for one of the runtime or the bootstrap, whose names have a dot."""
    if "." in name:
        return None
    is_spelled = decided is not None and decided.flags and not isinstance(decided.value, bool)
    return decided.flags[0] if decided is not None and is_spelled else "--" + name.replace("_", "-")


def _mapping(variables: tuple[EnvVar, ...]) -> dict[str, str]:
    return {variable.name: variable.value for variable in variables}
