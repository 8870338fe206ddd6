"""Specs to one plan. Pure: no disk, no network, no clock, no environment. Reads like a table of contents."""

from __future__ import annotations

from compiler.plan.core import EnvVar, InputFile, Plan, SwapMember, SwapPlan
from compiler.resolve.client import resolve_client
from compiler.resolve.deploy import resolve_deploy, resolve_hardware
from compiler.resolve.engine import resolve_engine
from compiler.resolve.image import resolve_image
from compiler.resolve.ledger import Ledger
from compiler.resolve.overrides import overrides_for
from compiler.resolve.pod import (
    PUBLIC_KEY,
    compile_cache_of,
    endpoint,
    resolve_bridge,
    resolve_compile_cache,
    resolve_desktop,
    resolve_journal,
    resolve_kv_store,
    resolve_network,
    resolve_processes,
    resolve_publish,
    resolve_secrets,
    resolve_storage,
    resolve_watchdog,
)
from compiler.resolve.speed import resolve_speed
from compiler.resolve.start import bootstrap_phases
from compiler.schema.specset import SpecSet

__all__ = ["resolve_plan"]


def resolve_plan(specs: SpecSet) -> Plan:
    """The complete plan of a profile. Total: what would not work is still a plan, and rules say what is wrong with it."""
    ledger = Ledger(specs)
    host, port = endpoint(specs)
    model, engine, memory = resolve_engine(specs, ledger, host, port)
    swap = _resolve_swap(specs, ledger, host, port)
    members = swap.members if swap else ()
    hardware, image, network = resolve_hardware(specs), resolve_image(specs, ledger), resolve_network(specs, ledger)
    desktop, journal = resolve_desktop(specs, ledger), resolve_journal(specs, ledger)
    compile_cache = resolve_compile_cache(specs, ledger, model, engine)
    storage = resolve_storage(specs, ledger, (model, *(m.model for m in members)))
    overrides = overrides_for(
        image, engine, swaps=swap is not None, has_journal=journal is not None, has_compile_cache=compile_cache is not None,
        known_settings=frozenset(specs.flags.flags),
    )  # fmt: skip
    return Plan(
        profile=specs.name, summary=specs.profile.summary, target=specs.profile.target, model=model, hardware=hardware, engine=engine, memory=memory,
        speed=resolve_speed(specs, engine, memory), image=image,
        overrides=overrides, pod_env=_pod_env(specs, storage.hf_home, storage.vllm_cache_root), processes=resolve_processes(specs, engine, network), network=network,
        storage=storage, secrets=resolve_secrets(specs, ledger), bridge=resolve_bridge(specs, ledger, engine), watchdog=resolve_watchdog(specs, ledger), swap=swap,
        compile_cache=compile_cache, journal=journal, publish=resolve_publish(specs, ledger), desktop=desktop, kv_store=resolve_kv_store(specs, ledger),
        deploy=resolve_deploy(specs, ledger, image), client=resolve_client(specs, ledger, model, engine.max_model_len),
        bootstrap_phases=bootstrap_phases(image, engine, desktop), inputs=tuple(InputFile(path, sha) for path, sha in specs.inputs),
        decisions=ledger.decisions,
    )  # fmt: skip


def _resolve_swap(specs: SpecSet, ledger: Ledger, host: str, port: int) -> SwapPlan | None:
    """Each member resolved by its own profile, listening where this profile's engine listens."""
    if specs.profile.swap is None:
        return None
    cache, members = specs.profile.compile_cache, []
    for member in specs.swap:
        model, engine, memory = resolve_engine(member, Ledger(member, f"swap.{member.name}."), host, port)
        # What is kept, and where, is for this profile to say; what changes a member's graph is in the member's own plan.
        members.append(SwapMember(member.name, model, engine, memory, compile_cache_of(cache.repo, member, model, engine) if cache else None))
    ledger.section("swap", specs.profile.swap, "swap")
    return SwapPlan(tuple(members), specs.profile.swap.preload)


_RUNTIME_ENV = {PUBLIC_KEY: "the keys whose publications the pod follows", "HF_ENDPOINT": "the Hub that the pod follows and downloads from"}


def _pod_env(specs: SpecSet, hf_home: str, vllm_cache: str) -> tuple[EnvVar, ...]:
    """Variables of the pod itself; the engine's own are part of its plan."""
    env = [
        EnvVar("HF_HOME", hf_home, "where weights are kept"),
        EnvVar("VLLM_CACHE_ROOT", vllm_cache, "where compiled graphs are kept"),
        EnvVar("HF_XET_HIGH_PERFORMANCE", "1", "200 to 390 MB/s instead of the image pull's 46 MB/s"),
        EnvVar("HF_HUB_DISABLE_PROGRESS_BARS", "1", "progress bars drown the log"),
        EnvVar("VLLM_NO_USAGE_STATS", "1", "nothing is reported about the pod"),
    ]
    # The engine's variables reach the engine alone; these two are read by what starts and follows before there is one.
    env += [EnvVar(name, specs.profile.env[name].value, why) for name, why in _RUNTIME_ENV.items() if name in specs.profile.env]
    return tuple(env)
