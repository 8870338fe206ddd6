"""Which attention backends of the release can serve each layer of a model, from what the flag snapshot says they declare.

A snapshot is taken on one machine, so abilities that a backend finds out on the card itself are added here.
"""

from __future__ import annotations

import dataclasses

from compiler.lint.facts import LATENT_LAYERS, kv_dtype, older, on_gpu, sm, version
from compiler.lint.rule import Subject
from compiler.schema.flags import AttentionBackend

ATTENTION_LAYERS = frozenset({"full", "sliding", "chunked"})
SINK_FAMILIES = ("gpt_oss", "gpt-oss")
# The engine takes these only when they are asked for, or for layers of another shape.
_NEVER_BY_ITSELF = frozenset({"HPC_ATTN", "FLASH_ATTN_DIFFKV", "TRITON_ATTN_DIFFKV"})

# The engine's order for plain attention; on data-center Blackwell FlashInfer comes first.
_ORDER = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION")


@dataclasses.dataclass(frozen=True, slots=True)
class Need:
    """What one kind of layers asks of a backend: latent attention or not, the width of a head, attention sinks."""

    latent: bool
    sparse: bool
    width: int
    sinks: bool


def has_sinks(subject: Subject) -> bool:
    """True for a model whose attention has sinks, which few backends read."""
    architecture = subject.specs.model.architecture
    return architecture.model_type in SINK_FAMILIES or architecture.family in SINK_FAMILIES


def needs(subject: Subject) -> list[Need]:
    """One need for each kind of attention layers; empty for a measured geometry and for layers without attention."""
    sinks, found = has_sinks(subject), []
    for layer in subject.specs.model.architecture.kv:
        if layer.kind in LATENT_LAYERS:
            width = getattr(layer, "kv_lora_rank", 0) + getattr(layer, "rope_dim", 0)
            found.append(Need(True, layer.kind == "mla-ds", width, sinks))
        elif layer.kind in ATTENTION_LAYERS:
            found.append(Need(False, False, getattr(layer, "head_dim", 0), sinks))
    return found


def runs_on(subject: Subject, backend: AttentionBackend) -> bool:
    """True when the backend runs on this compute capability. A minor that was not asked counts as the next lower one of its major."""
    asked = [version(capability) for capability in backend.capabilities]
    return any(major == subject.capability[0] and minor <= subject.capability[1] for major, minor in asked)


def reads_cache(subject: Subject, name: str, backend: AttentionBackend, dtype: str) -> bool:
    """True when the backend reads that cache type on this card. Its declaration says nothing about the card."""
    if dtype == "auto":
        return True
    if name == "FLASH_ATTN" and dtype.startswith("fp8"):
        return sm(subject) // 10 in (9, 10) and dtype in ("fp8", "fp8_e4m3")
    if name in ("TRITON_ATTN", "TRITON_MLA") and dtype.startswith("fp8") and sm(subject) < 89:
        return False
    if name == "FLASHINFER" and dtype.startswith("nvfp4") and sm(subject) < 100 and older(subject, 0, 32):
        return False
    return dtype in backend.kv_cache_dtypes


def reads_sinks(subject: Subject, name: str, backend: AttentionBackend, dtype: str) -> bool:
    """True when the backend reads attention sinks here: FlashAttention does on Hopper, FlashInfer on data-center Blackwell.

    With an NVFP4 cache nobody has shown it, and the declaration alone counts.
    """
    on_card = {"FLASH_ATTN": 9, "FLASHINFER": 10}.get(name)
    return "supports_sink" in backend.abilities or (on_card == sm(subject) // 10 and not dtype.startswith("nvfp4"))


def serving(subject: Subject, need: Need, dtype: str) -> list[str]:
    """Names of the backends that serve such layers with that cache type on this card, and that the engine takes by itself."""
    return [
        name
        for name, backend in sorted(subject.specs.flags.backends.items())
        if name not in _NEVER_BY_ITSELF
        and need.latent == ("is_mla" in backend.abilities)
        and (need.sparse or "is_sparse" not in backend.abilities)
        and (not backend.head_sizes or need.width in backend.head_sizes)
        and (not need.sinks or reads_sinks(subject, name, backend, dtype))
        and runs_on(subject, backend)
        and reads_cache(subject, name, backend, dtype)
    ]


def resolved(subject: Subject) -> str | None:
    """The attention backend in force: the setting, else the engine's first choice that serves every layer; None when unknown."""
    forced, wanted = subject.setting("attention_backend"), needs(subject)
    if forced or not wanted or not on_gpu(subject):
        return str(forced) if forced else None
    order = _ORDER if sm(subject) // 10 != 10 else ("FLASHINFER", *_ORDER)
    return next((name for name in order if all(name in serving(subject, need, kv_dtype(subject)) for need in wanted)), None)


def nobody_serves(subject: Subject) -> Need | None:
    """The first need that no backend serves with the cache type in force; None when all are served, or nothing can be said."""
    dtype = kv_dtype(subject)
    if not on_gpu(subject) or not subject.specs.flags.backends or dtype == "auto" or dtype.startswith("turboquant"):
        return None
    return next((need for need in needs(subject) if not serving(subject, need, dtype)), None)


def described(subject: Subject, need: Need) -> str:
    """A need in words: the shape of the layers and the card."""
    shape = "latent attention" if need.latent else f"heads {need.width} wide"
    sinks = " and attention sinks" if need.sinks else ""
    return f"{shape}{sinks} on compute capability {subject.plan.hardware.compute_capability}"
