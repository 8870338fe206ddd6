"""A folder of compiled graphs in one file, and back. Standard library only.

The file is a gzipped tar whose first member is the manifest, and after it the mark of `pod.cache.seal`, without which nothing is
unpacked: compiled code runs in the engine. Behind the mark too, unpacking trusts nothing: only the files that the manifest
lists, in its order, with its sizes and hashes, into a private folder that becomes visible at once when all was right.
Links, devices, other paths, more bytes than promised: refused, and nothing is left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gzip
import hashlib
import io
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from pod.cache.manifest import LARGEST_MANIFEST, NAME, ArchiveError, CacheManifest, File, path_problem, read_manifest, sealed
from pod.cache.seal import Body, Seal, Sealing

# The largest cache of the source deployments had 1.2 GB. More than this is no compile cache, or somebody's bomb.
MOST_BYTES = 8 << 30
# Of 877 MiB of compiled code level 1 leaves 339 MiB and level 6 leaves 309, for 2.3 times the processor's time.
GZIP_LEVEL = 1
# Left free beside an unpacked cache, for the engine's own logs and compilations.
RESERVE_BYTES = 1 << 30
_BLOCK = 1 << 20
# What a tar may add to each file: its header, a long name's header and body, and padding.
_TAR_OVERHEAD = 12 << 10
_STAGE = ".podwright-unpacking-"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Lock files are of the process that made them, and half-written files of nobody.
_NOT_PACKED = (".lock", ".tmp")


@dataclasses.dataclass(frozen=True)
class Packed:
    """An archive that was written: its size in bytes, and its manifest."""

    archive_bytes: int
    manifest: CacheManifest


def pack(folder: Path, target: Path, seal: Seal, key: str, parts: Mapping[str, str], cold_start_s: float = 0.0,
         max_bytes: int = MOST_BYTES) -> Packed:  # fmt: skip
    """Write the regular files of `folder` into `target`, sealed, whole or not at all. The same content gives the same bytes.

    Raises ArchiveError: `empty` (nothing to pack), `too-big`, `changed` (a file was written to meanwhile), `no-room`.
    """
    files = tuple(_files(folder, max_bytes))
    if not files:
        raise ArchiveError("empty", f"{folder} holds nothing to keep")
    manifest = sealed(key, parts, cold_start_s, files)
    with _disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                sealing = Sealing(stream, seal)
                _write(sealing, folder, manifest)
                sealing.finish()
                stream.flush()
                os.fsync(stream.fileno())
            Path(temporary).replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    return Packed(target.stat().st_size, manifest)


def unpack(archive: Path, folder: Path, seal: Seal, key: str, parts: Mapping[str, str], max_bytes: int = MOST_BYTES,
           reserve: int = RESERVE_BYTES) -> CacheManifest:  # fmt: skip
    """Unpack into `folder`, beside what is there already; files that exist are kept. Gives the archive's manifest.

    Raises ArchiveError, after which `folder` is as it was: `unsealed`, `damaged`, `foreign`, `unsafe`, `too-big`, `no-room`.
    """
    folder = folder.resolve()
    with _disk_errors(folder), _folder_only_if_used(folder):
        for left in folder.glob(f"{_STAGE}*"):
            shutil.rmtree(left, ignore_errors=True)
        stage = Path(tempfile.mkdtemp(dir=folder, prefix=_STAGE))
        try:
            manifest = _unpacked(archive, stage, seal, key, parts, max_bytes, reserve)
            _merge(stage, folder)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    return manifest


@contextlib.contextmanager
def _folder_only_if_used(folder: Path) -> Iterator[None]:
    """The folder, made where it is missing, and gone again if nothing came into it."""
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _files(folder: Path, max_bytes: int) -> Iterator[File]:
    total = 0
    for where, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(where, name)
            path = file.relative_to(folder).as_posix()
            if name.endswith(_NOT_PACKED) or path_problem(path) or not stat.S_ISREG(file.lstat().st_mode):
                continue
            found = _file(file, path)
            total += found.size
            if total > max_bytes:
                raise ArchiveError("too-big", f"{folder} holds more than {max_bytes:,} bytes")
            yield found


def _file(file: Path, path: str) -> File:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
        return File(path, size, digest.hexdigest(), bool(os.fstat(stream.fileno()).st_mode & 0o100))


def _write(stream: Sealing, folder: Path, manifest: CacheManifest) -> None:
    with (
        gzip.GzipFile("", "wb", GZIP_LEVEL, stream, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        content = manifest.to_bytes()
        tar.addfile(_member(NAME, len(content), is_program=False), io.BytesIO(content))
        for file in manifest.files:
            with (folder / file.path).open("rb") as source:
                checked = _Hashing(source)
                try:
                    tar.addfile(_member(file.path, file.size, file.is_program), checked)
                except OSError as error:
                    if error.errno is not None:
                        raise
                    raise ArchiveError("changed", f"{file.path} became shorter while it was packed") from None
                if checked.digest.hexdigest() != file.sha256 or source.read(1):
                    raise ArchiveError("changed", f"{file.path} was written to while it was packed")


def _member(name: str, size: int, is_program: bool) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o755 if is_program else 0o644
    return member


class _Hashing(io.RawIOBase):
    """A stream that is hashed while it is read."""

    def __init__(self, source: BinaryIO) -> None:
        self._source, self.digest = source, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self._source.read(size)
        self.digest.update(block)
        return block


class _Budget(io.RawIOBase):
    """What comes out of the gzip stream, up to a number of bytes that may still be raised. More is a bomb."""

    def __init__(self, source: gzip.GzipFile, left: int) -> None:
        self._source, self.left = source, left

    def read(self, size: int = -1) -> bytes:
        block = self._source.read(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(block)
        if self.left < 0:
            raise ArchiveError("too-big", "holds more than its manifest promises")
        return block


def _unpacked(archive: Path, stage: Path, seal: Seal, key: str, parts: Mapping[str, str], max_bytes: int,
              reserve: int) -> CacheManifest:  # fmt: skip
    try:
        with archive.open("rb") as stream, gzip.GzipFile(fileobj=Body(stream, seal)) as zipped:
            budget = _Budget(zipped, LARGEST_MANIFEST + _TAR_OVERHEAD)
            with tarfile.open(fileobj=budget, mode="r|") as tar:
                manifest = read_manifest(_first_member(tar), key, parts, max_bytes)
                _check_room(stage, manifest.total_bytes, reserve)
                budget.left = manifest.total_bytes + _TAR_OVERHEAD * (len(manifest.files) + 2)
                for file in manifest.files:
                    _write_file(tar, file, stage)
                extra = tar.next()
                if extra is not None:
                    raise ArchiveError("unsafe", f"holds {extra.name[:80]!r}, which its manifest does not list")
            while budget.read(_BLOCK):
                pass
        return manifest
    except (ArchiveError, OSError) as error:
        if isinstance(error, ArchiveError) or error.errno is not None:
            raise
        raise ArchiveError("damaged", f"cannot be read: {error}") from None
    except Exception as error:  # Whatever tarfile and zlib make of bytes that somebody else has chosen.
        raise ArchiveError("damaged", f"cannot be read: {type(error).__name__}: {str(error)[:120]}") from None


def _first_member(tar: tarfile.TarFile) -> bytes:
    member = tar.next()
    if member is None or member.name != NAME or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise ArchiveError("foreign", f"does not begin with {NAME}, so it was not packed by this program")
    if member.size > LARGEST_MANIFEST:
        raise ArchiveError("too-big", f"has a manifest of {member.size:,} bytes")
    stream = tar.extractfile(member)
    return stream.read() if stream is not None else b""


def _write_file(tar: tarfile.TarFile, file: File, stage: Path) -> None:
    member = tar.next()
    if member is None:
        raise ArchiveError("damaged", f"ends before {file.path}")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        raise ArchiveError("unsafe", f"holds {member.name[:80]!r}, which is no regular file")
    if member.name != file.path or member.size != file.size:
        raise ArchiveError(
            "unsafe", f"holds {member.name[:80]!r} of {member.size:,} bytes where its manifest has {file.path} of {file.size:,}"
        )
    source = tar.extractfile(member)
    if source is None:
        raise ArchiveError("damaged", f"holds no content for {file.path}")
    target = stage / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with target.open("xb") as stream:
        while block := source.read(_BLOCK):
            digest.update(block)
            stream.write(block)
    if digest.hexdigest() != file.sha256:
        raise ArchiveError("damaged", f"has another content of {file.path} than its manifest says")
    target.chmod(0o755 if file.is_program else 0o644)


def _merge(stage: Path, folder: Path) -> None:
    """Move in what is not there. A whole folder moves at once, so a graph's folder is never seen half filled."""
    for entry in sorted(stage.iterdir()):
        place = folder / entry.name
        if not os.path.lexists(place):
            entry.rename(place)
        elif entry.is_dir() and place.is_dir() and not place.is_symlink():
            _merge(entry, place)


def _check_room(folder: Path, need: int, reserve: int) -> None:
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    if free < need + reserve:
        raise ArchiveError(
            "no-room", f"unpacks to {need:,} bytes, and {folder.parent} has {free:,} free, of which {reserve:,} must stay free"
        )


@contextlib.contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ArchiveError("no-room", f"the disk of {folder} is full") from error
        raise
