"""Where huggingface_hub keeps a repository on disk, and which of its files an engine opens. Standard library only.

`<cache>/models--owner--name/` holds `blobs/` (contents by hash), `snapshots/<commit>/` (links to them by file name) and
`refs/<branch>` (a commit). A finished download also leaves `podwright/<commit>.json` there: every file and its size, as
the Hub stated them. Newer releases of huggingface_hub keep the same facts in `trees/<commit>.json`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

# The same weights in a second format. Engines that find safetensors never open these, and some repositories hold all of them.
_OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.onnx_data", "original/*", "onnx/*")


def hub_cache(hf_home: str, env: Mapping[str, str]) -> Path:
    """The folder of the cache: where the environment puts it, else below `hf_home`, as huggingface_hub decides."""
    return Path(env.get("HF_HUB_CACHE") or Path(env.get("HF_HOME") or hf_home) / "hub")


def repo_folder(cache: Path, repo: str) -> Path:
    """The folder of a model repository such as `owner/name`."""
    return cache / f"models--{repo.replace('/', '--')}"


def snapshot_of(folder: Path, revision: str | None) -> Path | None:
    """The snapshot of a commit or, without one, of the branch that is downloaded when nothing is pinned; None: not there."""
    commit = revision or _text(folder / "refs" / "main")
    found = folder / "snapshots" / commit if commit else None
    return found if found is not None and found.is_dir() else None


def wanted(names: Iterable[str]) -> list[str]:
    """The files that an engine opens: all, but for further formats of weights that are there as safetensors."""
    found = sorted(names)
    if not any(name.endswith(".safetensors") and "/" not in name for name in found):
        return found
    return [name for name in found if not any(fnmatch.fnmatchcase(name, pattern) for pattern in _OTHER_FORMATS)]


def listing(folder: Path, commit: str) -> dict[str, int] | None:
    """Sizes in bytes of the files that a whole snapshot holds, by name; None where no download has left them."""
    own = _json(folder / "podwright" / f"{commit}.json")
    if isinstance(own, dict) and all(isinstance(size, int) for size in own.values()):
        return own
    tree = _json(folder / "trees" / f"{commit}.json")
    files = tree.get("files") if isinstance(tree, dict) else None
    if not isinstance(files, dict):
        return None
    sizes = {name: _size(entry) for name, entry in files.items()}
    return {name: size for name in wanted(sizes) if (size := sizes[name]) is not None}


def write_listing(folder: Path, commit: str, sizes: Mapping[str, int]) -> None:
    """Keep what a whole snapshot holds. Raises OSError."""
    write_atomically(folder / "podwright" / f"{commit}.json", json.dumps(dict(sorted(sizes.items())), indent=1).encode())


def write_atomically(target: Path, content: bytes) -> None:
    """Put `content` in place of `target` at once; a reader sees the old or the new. Raises OSError and leaves nothing behind."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def stored_bytes(folder: Path) -> int:
    """Bytes that a repository takes on disk, half files included: what a download has achieved so far."""
    total = 0
    with contextlib.suppress(OSError), os.scandir(folder / "blobs") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=True)
                # A file that is written out of order is as long as its farthest write; only its blocks are there.
                total += min(found.st_size, found.st_blocks * 512) if entry.name.endswith(".incomplete") else found.st_size
    return total


def _size(entry: object) -> int | None:
    size = entry.get("lfs_size") or entry.get("size") if isinstance(entry, dict) else None
    return size if isinstance(size, int) else None


def _json(file: Path) -> object:
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError):
        return ""
