"""Who packed an archive: only a pod that has the endpoint's key, which a writer of the dataset need not have.

The last bytes of an archive are an HMAC-SHA256 over all before them. It is compared before a byte is read as gzip, tar or JSON.
The key is derived from the endpoint's (HMAC-SHA256 with a label), so a mark tells nothing that opens the endpoint. Standard library only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import io
import os
from typing import BinaryIO

from pod.cache.manifest import ArchiveError

MARK_BYTES = hashlib.sha256().digest_size
# A shorter secret could be found by trying all there are, by whoever reads an archive and its mark.
SHORTEST = 16
_KEY, _NAME = b"podwright compile cache 1: key", b"podwright compile cache 1: name"
_BLOCK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Seal:
    """What one secret seals with: `key` in hexadecimal, never shown; `name` is public and tells the archives of two secrets apart."""

    key: str = dataclasses.field(repr=False)
    name: str

    @classmethod
    def of(cls, secret: str) -> Seal:
        """The seal of a secret. Raises ValueError when it is too short to seal anything."""
        if len(secret) < SHORTEST:
            raise ValueError(f"has fewer than {SHORTEST} characters")
        given = secret.encode("utf-8", "surrogateescape")
        return cls(_derived(given, _KEY).hex(), _derived(given, _NAME).hex()[:8])


class Sealing(io.RawIOBase):
    """A file that is written and sealed at the same time; `finish` appends the mark."""

    def __init__(self, target: BinaryIO, seal: Seal) -> None:
        self._target, self._mac = target, _mac(seal)

    def write(self, block: bytes, /) -> int:  # type: ignore[override]
        self._mac.update(block)
        return self._target.write(block)

    def finish(self) -> None:
        """Nothing more comes."""
        self._target.write(self._mac.digest())


class Body(io.RawIOBase):
    """An archive without its mark, once that is right. Raises ArchiveError `unsealed` otherwise, before anything of it is used."""

    def __init__(self, archive: BinaryIO, seal: Seal) -> None:
        self._archive = archive
        self._left = max(0, os.fstat(archive.fileno()).st_size - MARK_BYTES)
        mac, left = _mac(seal), self._left
        while block := archive.read(min(left, _BLOCK)):
            mac.update(block)
            left -= len(block)
        if not hmac.compare_digest(mac.digest(), archive.read(MARK_BYTES)):
            raise ArchiveError("unsealed", "was changed, or packed by somebody without the endpoint's key: look who may write there, and delete the file")
        archive.seek(0)

    def read(self, size: int = -1, /) -> bytes:
        block = self._archive.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(block)
        return block


def _derived(secret: bytes, label: bytes) -> bytes:
    return hmac.new(secret, label, hashlib.sha256).digest()


def _mac(seal: Seal) -> hmac.HMAC:
    return hmac.new(bytes.fromhex(seal.key), digestmod=hashlib.sha256)
