"""KV connectors and the hybrid cache manager: which ones let it run, as data.

Without the manager, sliding-window layers cost as much as full ones and state layers find no common cache type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HYBRID_CONNECTORS: Mapping[str, tuple[int, int]] = {
    "DecodeBenchConnector": (0, 26),
    "HiSparseConnector": (0, 33),
    "LMCacheMPConnector": (0, 21),
    "MooncakeConnector": (0, 26),
    "MooncakeStoreConnector": (0, 26),
    "NixlConnector": (0, 21),
    "NixlPullConnector": (0, 26),
    "NixlPushConnector": (0, 26),
    "OffloadingConnector": (0, 21),
    "SimpleCPUOffloadConnector": (0, 21),
}
"""Connectors whose class declares ``SupportsHMA``, each with the first release that podwright takes it for granted in.

Source: class heads in vLLM's ``distributed/kv_transfer/kv_connector/v1`` and LMCache's ``lmcache_mp_connector.py``.
LMCacheConnectorV1, FlexKVConnectorV1 and HF3FSKVConnector declare nothing, and classes of one's own may not: the engine
then turns the manager off (vllm#42911; gpt-oss-120b on 0.22.1 fell from 25,798,626 to 13,724,416 tokens with LMCacheConnectorV1).
"""
COMBINED = "MultiConnector"


def keeps_hybrid_manager(config: Mapping[str, Any], release: tuple[int, ...]) -> bool:
    """False when a `kv_transfer_config` makes the engine turn its hybrid cache manager off. A MultiConnector is as good as
    the weakest that it holds."""
    connector = config.get("kv_connector")
    if connector is None:
        return True
    if connector != COMBINED:
        return isinstance(connector, str) and release[:2] >= HYBRID_CONNECTORS.get(connector, (1 << 30, 0))
    extra = config.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, Mapping) else None
    held = inner if isinstance(inner, (list, tuple)) else ()
    return all(keeps_hybrid_manager(one, release) for one in held if isinstance(one, Mapping))
