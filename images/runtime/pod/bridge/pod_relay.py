"""`GET /pod/status`, `/pod/manifest`, `/pod/journal` and `/pod/proof`: what the supervisor says of the pod, handed on to holders of the key.

A pod has one public port and no shell. Nothing else of the supervisor can be reached from outside, and nothing can be changed.
"""

from __future__ import annotations

import re

from pod.bridge.errors import ApiError
from pod.bridge.exchange import Exchange
from pod.bridge.upstream import Upstream

PAGES = ("status", "manifest", "journal", "proof")
# The supervisor answers from memory.
ANSWER_S = 5.0
# What may follow: a count of lines, a salt.
_QUERY = re.compile(r"(?:lines=[0-9]{1,4}|salt=[0-9a-f]{1,64})\Z")


class PodRelay:
    """Asks the supervisor. `has_pod` is False for a bridge that somebody started by itself."""

    def __init__(self, supervisor: Upstream, has_pod: bool) -> None:
        self._supervisor, self._has_pod = supervisor, has_pod

    async def relay(self, exchange: Exchange) -> None:
        """One answer of the supervisor. Raises ApiError 404 where there is none, 503 where it does not answer."""
        if not self._has_pod:
            raise ApiError(404, "This bridge was started by itself: there is no pod around it to tell of.")
        page, query = exchange.request.path.rstrip("/").rpartition("/")[2], exchange.request.target.partition("?")[2]
        asked = f"/{page}?{query}" if _QUERY.match(query) else f"/{page}"
        try:
            status, body = await self._supervisor.fetch("GET", asked, seconds=ANSWER_S)
        except ApiError as error:
            raise ApiError(503, f"The pod's supervisor does not answer: {error.message}", retry_after=2) from None
        exchange.answer(status, body, {"cache-control": "no-store"})
