"""The name of a compile cache: what the plan knows, and what only the running pod knows. Standard library only.

A cache of another model, GPU, release, setting or processor is at best useless and at worst wrong, and the engine
cannot tell in every case. So everything that changes compiled code is part of the key, and the parts travel with the
archive for whoever has to find out why two keys differ.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from pod.contract import CompileCache, Override
from pod.hub.files import hub_cache
from pod.weights.offline import LEVER

# Compilers and what they compile: another build of one of these makes other code of the same graph.
_DISTRIBUTIONS = ("torch", "triton", "flashinfer-python")


def compile_key(cache: CompileCache, facts: Mapping[str, str]) -> str:
    """16 hexadecimal digits for the plan's key and these facts; any difference in either gives another one."""
    text = json.dumps({"plan": cache.key, "facts": dict(facts)}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def key_parts(cache: CompileCache, facts: Mapping[str, str]) -> dict[str, str]:
    """All parts by name, for the archive and the journal; those of the pod begin with `pod.`."""
    return {**cache.key_parts, **{f"pod.{name}": value for name, value in facts.items()}}


def runtime_facts(
    distribution: str, driver: str | None, gpus: Iterable[str], overrides: Mapping[str, str], cpuinfo: Path = Path("/proc/cpuinfo")
) -> dict[str, str]:
    """What the pod adds: major of the driver, the GPUs as the driver names them, levers that reach the engine, versions.

    `driver` is None on a CPU, whose compiled code is for exactly the instructions of this processor, so these count then.
    """
    found = {name: version for name in (distribution, *_DISTRIBUTIONS) if (version := _version(name)) is not None}
    facts = {"python": ".".join(platform.python_version_tuple()[:2]), "machine": platform.machine(), **found}
    facts["gpus"] = ", ".join(sorted(gpus))
    facts["driver"] = driver.partition(".")[0] if driver else "none"
    if driver is None:
        facts["cpu"] = _instructions(cpuinfo)
    facts.update({f"lever {name}": value for name, value in sorted(overrides.items())})
    return facts


def weights_facts(hf_home: str, env: Mapping[str, str]) -> dict[str, str]:
    """Where the engine finds its weights, and whether it may ask the Hub for them.

    vLLM's own key holds the model's name and, where the Hub is not asked, puts the snapshot's folder in its place (0.27.1,
    `ModelConfig.compute_hash` and `EngineArgs`): graphs of one are not found by a start with the other.
    """
    return {"hub cache": str(hub_cache(hf_home, env)), "hub offline": env.get(LEVER) or "auto"}


def engine_levers(overrides: Iterable[Override], env: Mapping[str, str]) -> dict[str, str]:
    """The levers in force that change the engine's command line."""
    return {o.name: env[o.name] for o in overrides if o.option is not None and env.get(o.name)}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _instructions(cpuinfo: Path) -> str:
    """A digest of the processor's flags; the plain machine's name where the kernel lists none."""
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.machine()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])
    return hashlib.sha256(" ".join(sorted(flags)).encode()).hexdigest()[:12] if flags else platform.machine()
