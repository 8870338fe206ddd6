"""Is what an engine will open whole on this disk? Measured, never assumed. Standard library only; reads, never writes.

An empty or wrongly mounted cache looks like a model that was never downloaded, and an engine then fetches it again without
a word; half a shard fails after minutes with a message about something else. So every size is looked at, and the length
that the header of each safetensors file promises is compared with the length that is there.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pod.contract import Fetch
from pod.hub.files import listing, repo_folder, snapshot_of

GIB = 1 << 30
# Headers of real checkpoints take some hundred kilobytes; the format itself allows up to 100 MB.
_LONGEST_HEADER = 100_000_000
# Where only the planned size is known: files like a README may have changed since it was taken, weights have not.
_SHARE_THAT_COUNTS_AS_WHOLE = 0.99
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_TOKENIZERS = ("tokenizer", "tiktoken", "vocab", "merges", "spiece", "sentencepiece", "tekken")


@dataclasses.dataclass(frozen=True)
class Presence:
    """What is on disk of one repository. `snapshot` is its folder, None when there is none.

    `expected_bytes` is what was promised: by the Hub at the download, else by the plan; None when nobody knows.
    `problem` says what is missing, as the end of a sentence about the repository; None when it is whole.
    """

    repo: str
    snapshot: Path | None
    present_bytes: int
    expected_bytes: int | None
    problem: str | None

    @property
    def whole(self) -> bool:
        """Whether an engine that is not allowed to ask the Hub will find everything."""
        return self.problem is None


def presence(hub_cache: Path, fetch: Fetch) -> Presence:
    """What of `fetch` is on disk below `hub_cache`. Raises nothing: what cannot be read is missing."""
    folder = repo_folder(hub_cache, fetch.repo)
    snapshot = snapshot_of(folder, fetch.revision)
    if snapshot is None:
        return Presence(fetch.repo, None, 0, fetch.expected_bytes, _why_absent(hub_cache, folder, fetch))
    sizes = _sizes(snapshot)
    promised = listing(folder, snapshot.name)
    expected = sum(promised.values()) if promised is not None else fetch.expected_bytes
    present = sum(size for size in sizes.values() if size is not None)
    problem = next(_problems(fetch, snapshot, sizes, promised, present), None)
    return Presence(fetch.repo, snapshot, present, expected, problem)


def on_disk(hub_cache: Path, fetches: Iterable[Fetch]) -> tuple[int, int | None]:
    """Bytes on disk of all repositories together, and bytes that should be there; None where that is not known of one of them.

    What is whole counts as expected as it is: a plan's size also counts files that no engine opens.
    """
    found = [presence(hub_cache, fetch) for fetch in fetches]
    expected = [have.present_bytes if have.whole else have.expected_bytes for have in found]
    known = [size for size in expected if size is not None]
    return sum(have.present_bytes for have in found), sum(known) if len(known) == len(found) else None


def in_gib(count: int) -> str:
    """Bytes as people read them: `17.3 GiB`, or MiB below a tenth of one."""
    return f"{count / GIB:.1f} GiB" if count >= GIB // 10 else f"{count / (1 << 20):.1f} MiB"


def _why_absent(hub_cache: Path, folder: Path, fetch: Fetch) -> str:
    named = f" at commit {fetch.revision[:12]}" if fetch.revision else ""
    inner = repo_folder(hub_cache / "hub", fetch.repo)
    if inner.is_dir():
        return f"is below {hub_cache}/hub instead of {hub_cache}: the volume is mounted one level too high"
    if folder.is_dir():
        others = sorted(entry.name[:12] for entry in _entries(folder / "snapshots"))
        return f"is not there{named}; {f'other commits are: {chr(44).join(others)}' if others else 'a download was begun and not finished'}"
    if hub_cache.is_dir() and not any(_entries(hub_cache)):
        return f"is not there{named}: {hub_cache} is empty"
    return f"is not there{named}"


def _problems(
    fetch: Fetch, snapshot: Path, sizes: Mapping[str, int | None], promised: Mapping[str, int] | None, present: int
) -> Iterator[str]:
    for name, size in sizes.items():
        if size is None:
            yield f"lacks {name}: its link leads nowhere"
    for name, size in (promised or {}).items():
        yield from _against_promise(name, sizes.get(name), size)
    shards = _indexed_shards(snapshot)
    for name in sorted(shards - sizes.keys()):
        yield f"lacks {name}, which its weight index names"
    for name in sizes:
        if name.endswith(".safetensors"):
            yield from _against_header(snapshot / name, name)
    yield from _missing_kind(fetch, sizes)
    has_measure = promised is not None or shards or any(name.endswith(".safetensors") for name in sizes)
    if not has_measure and fetch.expected_bytes and present < fetch.expected_bytes * _SHARE_THAT_COUNTS_AS_WHOLE:
        yield f"holds {in_gib(present)} of {in_gib(fetch.expected_bytes)}"


def _against_promise(name: str, size: int | None, promised: int) -> Iterator[str]:
    """JSON files may have been repaired since, so their length is not compared."""
    if size is None:
        yield f"lacks {name}"
    elif size != promised and not name.endswith(".json"):
        yield f"has {size:,} bytes of {name} instead of {promised:,}"


def _against_header(file: Path, name: str) -> Iterator[str]:
    """A safetensors file states where its last tensor ends."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length)) if 0 < length <= _LONGEST_HEADER else None
            size = os.fstat(stream.fileno()).st_size
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]  # type: ignore[union-attr]
        promised = 8 + length + max(ends, default=0)
    except (OSError, ValueError, AttributeError, KeyError, IndexError, TypeError):
        yield f"has a {name} that is damaged: it does not begin with the header of a safetensors file"
        return
    if size != promised:
        yield f"has {size:,} bytes of {name} instead of {promised:,}"


def _missing_kind(fetch: Fetch, sizes: Mapping[str, int | None]) -> Iterator[str]:
    names = [Path(name).name for name in sizes]
    if fetch.role == "tokenizer":
        if not any(name.startswith(_TOKENIZERS) for name in names):
            yield "holds no tokenizer"
        return
    if not any(name.endswith(_WEIGHTS) for name in names):
        yield "holds no weights"
    if not any(name in ("config.json", "params.json") for name in names):
        yield "holds no config.json"


def _indexed_shards(snapshot: Path) -> set[str]:
    shards: set[str] = set()
    for index in snapshot.glob("*.index.json"):
        try:
            shards.update(str(name) for name in json.loads(index.read_bytes())["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            shards.add(f"a readable {index.name}")
    return shards


def _sizes(snapshot: Path) -> dict[str, int | None]:
    """Length of each file by its name in the repository; None for a link that leads nowhere."""
    sizes: dict[str, int | None] = {}
    for folder, _, names in os.walk(snapshot):
        for name in names:
            file = Path(folder, name)
            try:
                sizes[file.relative_to(snapshot).as_posix()] = file.stat().st_size
            except OSError:
                sizes[file.relative_to(snapshot).as_posix()] = None
    return dict(sorted(sizes.items()))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
