"""KV connectors of a profile, also those inside another one and the one that an offload setting implies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.lint.facts import mapping
from compiler.lint.rule import Subject

# Classes by prefix: the dynamic and further variants share the limits of the first.
WITHOUT_HYBRID_SUPPORT = "LMCacheConnectorV1"


def connectors(subject: Subject) -> list[tuple[str, str]]:
    """Pairs of the setting that brings a connector and the connector's class name, the outer before the inner."""
    found = [("kv_transfer_config", name) for name in _names(mapping(subject, "kv_transfer_config"))]
    if subject.setting("kv_offloading_size") and subject.setting("kv_offloading_backend") == "lmcache":
        found.append(("kv_offloading_backend", WITHOUT_HYBRID_SUPPORT))
    return found


def _names(config: Mapping[str, Any]) -> Iterator[str]:
    name, extra = config.get("kv_connector"), config.get("kv_connector_extra_config")
    if isinstance(name, str):
        yield name
    inner = extra.get("connectors") if isinstance(extra, Mapping) else None
    for item in inner if isinstance(inner, (list, tuple)) else ():
        if isinstance(item, Mapping):
            yield from _names(item)
