"""Where the files of a checkpoint are: on the Hub, read by ranges, or in a folder. Only small files and headers are read, never weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compiler.checkpoint.facts import INDEX, JSON_FILES, TEMPLATE, CheckpointFiles
from compiler.checkpoint.json_file import read_json
from compiler.checkpoint.tensors import LENGTH_BYTES, Shard, chosen_files, header_length
from compiler.deploy.failures import BadAnswer, NotFound
from compiler.deploy.hub import HubClient
from compiler.diagnostics import Diagnostic

# An index of half a million tensors has tens of megabytes; everything else here has kilobytes.
LARGEST_TEXT = 64 << 20
# The header of an ordinary shard; a longer one costs a second question.
FIRST_SPAN = 256 << 10
# Shards asked for at once: a checkpoint of 200 files is read in seconds, and no server takes it for an attack.
AT_ONCE = 8
Bytes = Callable[[str, int, int], bytes]
Progress = Callable[[str], None]


def hub_checkpoint(
    client: HubClient, repo: str, revision: str | None = None, progress: Progress = lambda text: None
) -> tuple[CheckpointFiles, list[Diagnostic]]:
    """A repository's files at a commit. Raises what HubClient raises; a header that is none is a finding."""
    listing = client.listing(repo, revision)
    if listing.gated and not client.may_download(repo):
        client.content(repo, "config.json", listing.revision, LARGEST_TEXT)  # Says in the Hub's own way what is missing.
    texts = {name: client.content(repo, name, listing.revision, LARGEST_TEXT) for name in (*JSON_FILES, TEMPLATE) if name in listing.sizes}
    shards, problems = _shards(
        texts, listing.sizes, lambda name, begin, end: client.span(repo, name, listing.revision, begin, end), progress
    )
    return CheckpointFiles(
        listing.name, texts, listing.sizes, shards, listing.name, listing.revision, listing.gated, listing.license, listing.published
    ), problems


def folder_checkpoint(
    folder: Path, repo: str | None = None, progress: Progress = lambda text: None
) -> tuple[CheckpointFiles, list[Diagnostic]]:
    """The files of a folder; links are followed, as in the Hub's own cache.

    Raises NotFound for what is no folder, and BadAnswer for a file too large to be what its name says.
    """
    if not folder.is_dir():
        raise NotFound(f"{folder} is no folder", "There is nothing to read.", "Give the folder that holds the checkpoint's config.json.")
    files = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    # Folders with a dot are the downloader's own.
    sizes = {at.as_posix(): path.stat().st_size for at, path in files.items() if not any(part.startswith(".") for part in at.parts[:-1])}
    texts = {name: _text(folder / name, sizes[name]) for name in (*JSON_FILES, TEMPLATE) if name in sizes}
    shards, problems = _shards(texts, sizes, lambda name, begin, end: _span(folder / name, begin, end), progress)
    return CheckpointFiles(f"the folder {folder.name}" if folder.name else "the folder", texts, sizes, shards, repo), problems


def _shards(texts: dict[str, bytes], sizes: dict[str, int], read: Bytes, progress: Progress) -> tuple[tuple[Shard, ...], list[Diagnostic]]:
    """The headers of the files that the engine reads, by name. Files that the index names and nobody has are left to its check."""
    index = read_json(INDEX, texts[INDEX])[0] if INDEX in texts else None
    wanted = [name for name in chosen_files(sizes, index) if name in sizes]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = []
        for number, answer in enumerate(pool.map(lambda name: _shard(name, sizes[name], read), wanted), 1):
            found.append(answer)
            progress(f"weight headers: {number} of {len(wanted)}")
    return tuple(shard for shard, _ in found), [d for _, problems in found for d in problems]


def _shard(name: str, size: int, read: Bytes) -> tuple[Shard, list[Diagnostic]]:
    start = read(name, 0, min(size, FIRST_SPAN)) if size else b""
    length, problems = header_length(name, start, size)
    if problems:
        return Shard(name, size, None), problems
    header = start[LENGTH_BYTES : LENGTH_BYTES + length]
    if len(header) < length:
        header += read(name, len(start), LENGTH_BYTES + length)
    return Shard(name, size, header), []


def _text(path: Path, size: int) -> bytes:
    if size > LARGEST_TEXT:
        raise BadAnswer(f"{path} has {size:,} bytes", "A file of that name is far smaller.", "Look whether it is the checkpoint's own.")
    return path.read_bytes()


def _span(path: Path, begin: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin, os.SEEK_SET)
        return file.read(end - begin)
