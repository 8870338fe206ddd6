"""Signatures of thinking blocks: opaque to clients, and sent back by them unchanged.

A client that wants no thinking to read (`thinking.display: "omitted"`, which `claude -p` asks for by itself) gets an empty
block whose signature carries the text. It comes back with the history, so that the model still has its own thoughts
between two tool calls, and no state is kept here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib

_CARRIES = "podwright.1."
# Nobody thinks longer in one block; a signature that unpacks to more is not one of ours.
MAX_CARRIED = 8 << 20


def signature_of(thinking: str) -> str:
    """The signature of a thinking block that a client can read: the same for the same text, and never empty."""
    return base64.b64encode(b"podwright" + hashlib.sha256(thinking.encode("utf-8", "replace")).digest()).decode()


def carrying(thinking: str) -> str:
    """The signature of a block whose text is left out: the text itself, packed."""
    return _CARRIES + base64.b64encode(zlib.compress(thinking.encode("utf-8", "replace"))).decode()


def carried_by(signature: object) -> str:
    """The text that a signature carries; empty where it carries none, or is another server's."""
    if not isinstance(signature, str) or not signature.startswith(_CARRIES):
        return ""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(signature.removeprefix(_CARRIES), validate=True), MAX_CARRIED)
    except (binascii.Error, ValueError, zlib.error):
        return ""
    return text.decode("utf-8", "replace") if unpacker.eof else ""
