"""The proof of which secrets a pod has: a salted hash of each, so that a rotation can be seen to be over. Never a secret itself. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

# As many random bytes as the hash has: no table of hashed secrets can be made beforehand.
_SALT = re.compile(r"[0-9a-f]{64}\Z")
# A shorter secret could be found by trying all there are, by whoever sees its hash. Tokens and keys that are made by a program are longer.
SHORTEST = 16


def salted(salt: bytes, secret: str) -> str:
    """Hexadecimal sha256 over salt and secret."""
    return hashlib.sha256(salt + secret.encode("utf-8", "surrogateescape")).hexdigest()


def proof_answer(names: Iterable[str], environ: Mapping[str, str], salt: str) -> tuple[int, dict[str, Any]]:
    """`GET /proof?salt=...`: an HTTP status, and by variable its salted hash; null for one that is not set or too short to be hashed."""
    if not _SALT.match(salt):
        return 400, {"error": "salt must be 64 hexadecimal digits, fresh for each question"}
    values = {name: environ.get(name, "").strip() for name in sorted(set(names))}
    return 200, {
        "proofs": {name: salted(bytes.fromhex(salt), value) if len(value) >= SHORTEST else None for name, value in values.items()},
        "unset": [name for name, value in values.items() if not value], "too_short": [name for name, value in values.items() if 0 < len(value) < SHORTEST],
    }  # fmt: skip
