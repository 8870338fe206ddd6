"""Archives of a compile cache that somebody has made by hand, right and wrong."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pod.cache.manifest import NAME, CacheManifest, File, sealed
from pod.cache.seal import MARK_BYTES, Seal, Sealing

SECRET = "an-endpoint-key-of-the-tests"
SEAL = Seal.of(SECRET)
KEY, PARTS = "0123456789abcdef", {"model": "owner/model@abc", "pod.driver": "580"}


def file_of(path: str, content: bytes, *, is_program: bool = False) -> File:
    return File(path, len(content), hashlib.sha256(content).hexdigest(), is_program)


def manifest_of(files: Mapping[str, bytes], key: str = KEY) -> CacheManifest:
    return sealed(key, PARTS, 12.5, tuple(file_of(path, content) for path, content in files.items()))


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def archive_of(target: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]], manifest: CacheManifest | bytes | None = None) -> Path:
    """A sealed archive with these members, after a manifest if there is one."""
    first = [] if manifest is None else [member(NAME, manifest.to_bytes() if isinstance(manifest, CacheManifest) else manifest)]
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in [*first, *members]:
            tar.addfile(info, io.BytesIO(content))
    return write_sealed(target, gzip.compress(plain.getvalue(), 1, mtime=0))


def write_sealed(target: Path, body: bytes, seal: Seal = SEAL) -> Path:
    """Any bytes with a mark that is right."""
    with target.open("wb") as stream:
        sealing = Sealing(stream, seal)
        sealing.write(body)
        sealing.finish()
    return target


def body_of(archive: Path) -> bytes:
    return archive.read_bytes()[:-MARK_BYTES]


def folder_of(root: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def content_of(root: Path) -> dict[str, bytes]:
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}
