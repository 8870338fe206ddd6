"""A KV connector cannot carry this model's cache.

## What it flags
`LMCacheConnectorV1` and its variants (also inside MultiConnector, or through `kv_offloading_backend: lmcache`) with a
hybrid model or with the hybrid cache manager forced on (errors); other connectors that are not known to support
hybrids there, and any such on a sliding-window model (warnings); a connector with `expandable_segments` in the allocator's
settings, or without its `kv_role` (errors).

## Why it hurts
Such a connector turns the hybrid cache manager off: state layers then find no common cache type and the engine exits,
sliding layers cost as much as full ones. Remapped segments break the memory that a connector registered.

## Example
    engine_args:
      kv_transfer_config: {kv_connector: LMCacheConnectorV1, kv_role: kv_both}      # on a hybrid model

## Use instead
    kv_store: {size_gib: 32, chunk: 1600}      # the multi-process connector, which supports hybrids

## When to ignore
The warning, when the window fits with all layers planned as full.

## Source
vllm#42911, LMCache#2845, gpustack#4660; 0.27.1's `_verify_kv_transfer_compat`.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Place, Severity
from compiler.lint.connectors import WITHOUT_HYBRID_SUPPORT, connectors
from compiler.lint.facts import environment, is_hybrid, layer_kinds, mapping, release
from compiler.lint.rule import Hit, Rule, Subject
from compiler.resolve.connectors import COMBINED, keeps_hybrid_manager

RULE = Rule(
    code="KVC016", name="connector-unfit-for-layers", severity=Severity.ERROR, refusal=True,
    traps=("lmcache-hybrid", "lmcache-hma-flag", "kv-transfer-swa-cost", "kv-connector-expandable"),
)  # fmt: skip


ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each obstacle between connector and cache."""
    found = connectors(subject)
    if not found:
        return
    fix, connector, config = "use kv_store (the multi-process connector), or no connector", found[0][1], mapping(subject, "kv_transfer_config")
    place = subject.setting_place(found[0][0])
    if config.get("kv_connector") and "kv_role" not in config:
        yield Hit(place, f"{connector} without kv_role", "the engine refuses a connector without its role", "set kv_role to kv_both")
    for setting, name in found:
        if name.startswith(WITHOUT_HYBRID_SUPPORT):
            yield from _unfit(subject, subject.setting_place(setting), name, fix, None)
        elif name != COMBINED and not keeps_hybrid_manager({"kv_connector": name}, release(subject)):
            yield from _unfit(subject, subject.setting_place(setting), name, fix, Severity.WARNING)
    allocator = next((name for name in ALLOCATOR if "expandable_segments:True" in (environment(subject, name) or "")), None)
    if allocator and not subject.setting("enable_cumem_allocator"):
        yield Hit(place, f"{connector} with expandable segments", "the engine refuses: remapped pages break registered memory", f"unset {allocator}")


def _unfit(subject: Subject, place: Place, name: str, fix: str, severity: Severity | None) -> Iterator[Hit]:
    if subject.setting("disable_hybrid_kv_cache_manager") is False:
        yield Hit(place, f"{name} with the hybrid cache manager forced on", "the connector refuses it", fix, severity)
    if is_hybrid(subject):
        yield Hit(place, f"{name} with a hybrid model", "its state layers cannot share one cache type, and the engine exits", fix, severity)
    if layer_kinds(subject) & {"sliding", "chunked"}:
        why = "the hybrid manager is turned off, and window layers then cost as much as full ones"
        yield Hit(place, f"{name} with sliding-window layers", why, fix, severity=Severity.WARNING)
