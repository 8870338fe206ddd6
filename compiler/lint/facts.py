"""Questions that several rules ask about a subject: short, pure, and about one fact each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import Place
from compiler.lint.rule import Subject
from compiler.plan.core import Decision
from compiler.units import GIB

STATE_LAYERS = frozenset({"gdn", "mamba2", "kda", "conv"})
LATENT_LAYERS = frozenset({"mla", "mla-ds"})
MIB_PER_GIB = 1024
INSISTING_METHODS = frozenset({"modelopt", "modelopt_fp4", "inc", "auto-round", "auto_round"})


def version(text: str) -> tuple[int, ...]:
    """The leading numbers of a release: (0, 27, 1) of `0.27.1rc2`."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def release(subject: Subject) -> tuple[int, ...]:
    """The engine's release as numbers. A preview build outside the series counts as its number says."""
    return version(subject.plan.engine.release)


def older(subject: Subject, *floor: int) -> bool:
    """True when the engine's release comes before `floor`."""
    return release(subject) < floor


def sm(subject: Subject) -> int:
    """Compute capability as one number: 89 for 8.9, 120 for 12.0."""
    major, minor = subject.capability
    return major * 10 + minor


def on_gpu(subject: Subject) -> bool:
    """False for a set-up without GPU."""
    return subject.plan.hardware.architecture != "cpu"


def layer_kinds(subject: Subject) -> frozenset[str]:
    """Kinds of the model's layers that keep something between tokens; empty for a measured geometry."""
    return frozenset(layer.kind for layer in subject.specs.model.architecture.kv)


def is_hybrid(subject: Subject) -> bool:
    """True when some layers keep a state of fixed size instead of a growing cache."""
    return bool(layer_kinds(subject) & STATE_LAYERS)


def is_moe(subject: Subject) -> bool:
    """True for a mixture of experts."""
    return subject.specs.model.architecture.experts > 0


def kv_dtype(subject: Subject) -> str:
    """Type of the KV cache in force: the setting, or under `auto` what the checkpoint's config imposes."""
    dtype = subject.plan.engine.kv_cache_dtype
    return (subject.specs.model.quantization.kv_cache_scheme or dtype) if dtype == "auto" else dtype


def is_fp8_cache(subject: Subject) -> bool:
    """True for every eight-bit floating-point cache, per-token scales included."""
    return kv_dtype(subject).startswith("fp8")


def is_turboquant(subject: Subject) -> bool:
    """True when the cache is packed by TurboQuant."""
    return kv_dtype(subject).startswith("turboquant")


def number(subject: Subject, name: str) -> float | None:
    """A setting's value where it is a number; None when it is not decided or is something else, which ENG005 reports."""
    value = subject.setting(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def text(subject: Subject, name: str) -> str | None:
    """A setting's value where it is text and not empty; None otherwise."""
    value = subject.setting(name)
    return value if isinstance(value, str) and value else None


def mapping(subject: Subject, name: str) -> Mapping[str, Any]:
    """A setting whose value is a JSON object, written as a mapping or as text; empty when it is not decided or is something else."""
    value = subject.setting(name)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def speculation_method(subject: Subject) -> str:
    """Method of speculation as profiles name it: `off`, `mtp` (any head of the model's own), `ngram`, `dspark`, ..."""
    chosen = subject.specs.profile.speculation
    method = str(mapping(subject, "speculative_config").get("method") or (chosen.method if chosen else "off"))
    return "mtp" if method.endswith("mtp") else method


def speculates(subject: Subject) -> bool:
    """True when the engine drafts tokens."""
    return speculation_method(subject) != "off"


def speculation_place(subject: Subject) -> Place:
    """Where the method was chosen: the profile's `speculation`, or the raw engine option."""
    if subject.specs.profile.speculation is not None:
        return subject.place("profile", "speculation", "method")
    return subject.setting_place("speculative_config")


def draft_tokens(subject: Subject) -> int | None:
    """Draft tokens for each step; None when the engine decides."""
    tokens = mapping(subject, "speculative_config").get("num_speculative_tokens")
    chosen = subject.specs.profile.speculation
    return tokens if isinstance(tokens, int) else (chosen.tokens if chosen else None)


def sessions(subject: Subject) -> int | None:
    """Sessions that the profile expects at once; None when it does not say."""
    return subject.specs.profile.workload.sessions if subject.specs.profile.workload else None


def environment(subject: Subject, name: str) -> str | None:
    """Value of an environment variable of the pod or the engine; None when it is not set."""
    both = (*subject.plan.engine.env, *subject.plan.pod_env)
    return next((variable.value for variable in both if variable.name == name), None)


def environment_place(subject: Subject, name: str) -> Place:
    """Where a variable was written, the profile first; the profile's `env` when no spec wrote it."""
    for kind in ("profile", "model", "hardware", "engine"):
        if name in getattr(subject.specs, kind).env:
            return subject.place(kind, "env", name)
    return subject.place("profile", "env")


def option_place(subject: Subject, name: str) -> Place:
    """Where a raw engine option was written, also when the compiler then completed its value."""
    for kind in ("profile", "model"):
        if name in getattr(subject.specs, kind).engine_args:
            return subject.place(kind, "engine_args", name)
    return subject.setting_place(name)


def decision(subject: Subject, setting: str) -> Decision | None:
    """Where an engine setting came from; None when nothing was recorded."""
    return next((d for d in subject.plan.decisions if d.route == f"engine.{setting}"), None)


def has_reason(subject: Subject, setting: str) -> bool:
    """True when the spec that decided a modelled engine setting says why, or cites evidence."""
    specs = subject.specs
    for settings in (specs.profile.settings, specs.hardware.engine, specs.model.engine):
        choice = getattr(settings, setting, None)
        if choice is not None:
            return bool(choice.reason or choice.evidence)
    return False


def vram_gib(subject: Subject) -> float:
    """Memory of one GPU in GiB, as nvidia-smi shows it."""
    return subject.plan.hardware.vram_mib / MIB_PER_GIB


def reserved_gib(subject: Subject) -> float:
    """GPU memory that others hold on each card, in GiB."""
    return (subject.specs.hardware.host.reserved or 0) / GIB


def utilization(subject: Subject) -> float:
    """Share of the card that the engine plans with."""
    return subject.plan.memory.utilization


def insists_on_method(subject: Subject) -> bool:
    """True for a checkpoint whose method the engine takes whatever `quantization` says (modelopt's FP8 and NVFP4, AutoRound)."""
    return subject.specs.model.quantization.method in INSISTING_METHODS


def uses_marlin(subject: Subject) -> bool:
    """True when weights are multiplied by a Marlin kernel, by choice or because the capability leaves no other."""
    chosen = (subject.setting("moe_backend"), subject.setting("linear_backend"))
    return "marlin" in chosen or "marlin" in subject.plan.model.kernel.lower()


def captures_graphs(subject: Subject) -> bool:
    """True when CUDA graphs are captured at start."""
    return not subject.setting("enforce_eager") and cudagraph_mode(subject) != "NONE" and on_gpu(subject)


def cudagraph_mode(subject: Subject) -> str | None:
    """Mode of CUDA graphs as chosen; None when the engine decides."""
    mode = subject.setting("cudagraph_mode") or mapping(subject, "compilation_config").get("cudagraph_mode")
    return str(mode).upper() if mode else None


def gpus_used(subject: Subject) -> int:
    """GPUs that the engine will use: ranks of a replica times stages times replicas."""
    stages = subject.setting("pipeline_parallel_size")
    return subject.plan.engine.tensor_parallel * subject.plan.engine.data_parallel * (stages if isinstance(stages, int) else 1)


def shares_layers(subject: Subject) -> bool:
    """True when GPUs of one replica exchange data at every step."""
    return on_gpu(subject) and gpus_used(subject) > subject.plan.engine.data_parallel
