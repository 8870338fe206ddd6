"""Bodies that come packed although nobody asked for it: gateways in front of an engine do so."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from pod.bridge.errors import ApiError

Unpack = Callable[[bytes], bytes]
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def unpacker(encoding: str) -> Unpack | None:
    """What unpacks a body piece by piece; None where it is not packed. Raises ApiError for a packing that nobody here knows, and the
    unpacker does for bytes that are none."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise ApiError(502, f"The engine's answer is packed by {name[:50]}, which nobody asked for.")
    inflate = zlib.decompressobj(_GZIP_OR_ZLIB).decompress

    def unpack(data: bytes) -> bytes:
        try:
            return inflate(data)
        except zlib.error:
            raise ApiError(502, f"The engine's answer says that it is packed by {name}, and is not.") from None

    return unpack
