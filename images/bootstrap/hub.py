"""The Hub cache of this pod: is a repository whole, fetch one, append to a list in a checkpoint's JSON file.

Only `fetch` needs huggingface_hub; the rest is standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def snapshots(hub: Path, repo: str, revision: str) -> list[Path]:
    """Snapshot folders of `repo`: the one of `revision`, or all when no revision is pinned."""
    folder = hub / f"models--{repo.replace('/', '--')}" / "snapshots"
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [s for s in found if not revision or s.name == revision]


def state(hub: Path, repo: str, revision: str) -> str:
    """`cached`, or why it is not: `absent`, `incomplete`."""
    found = snapshots(hub, repo, revision)
    if not found:
        return "absent"
    blobs = hub / f"models--{repo.replace('/', '--')}" / "blobs"
    if any(blobs.glob("*.incomplete")):
        return "incomplete"
    return "cached" if any(_is_whole(s) for s in found) else "incomplete"


def _is_whole(snapshot: Path) -> bool:
    """Every shard of the weight index is there; without an index, some weights or at least a tokenizer are."""
    index = snapshot / "model.safetensors.index.json"
    if index.exists():
        shards = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        return all((snapshot / name).exists() for name in shards)
    return any(any(snapshot.glob(pattern)) for pattern in ("*.safetensors", "*.bin", "*.pt", "tokenizer*", "tiktoken*"))


def fetch(hub: Path, repo: str, revision: str, only: list[str] | None = None) -> Path:
    """Download `repo` into the cache; with `only`, just files of these patterns."""
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(repo, revision=revision or None, cache_dir=hub, allow_patterns=only))


def patch(hub: Path, row: dict[str, Any]) -> str:
    """Append values to a list inside a JSON file of every cached snapshot, once. Says what was done."""
    repo, revision, name = row["repo"], row["revision"] or "", row["file"]
    if not any((s / name).exists() for s in snapshots(hub, repo, revision)):
        fetch(hub, repo, revision, ["*.json"])
    changed = [s for s in snapshots(hub, repo, revision) if (s / name).exists() and _append(s / name, row["key_path"], row["append"])]
    return f"{name}: {'.'.join(row['key_path'])} {'extended' if changed else 'already holds'} {row['append']}"


def _append(file: Path, key_path: list[str], values: list[str]) -> bool:
    document = json.loads(file.read_text("utf-8"))
    node = document
    for key in key_path[:-1]:
        node = node[key]
    present = node.setdefault(key_path[-1], [])
    missing = [v for v in values if v not in present]
    if not missing:
        return False
    present.extend(missing)
    # The snapshot holds links into the blob store: the link is replaced, so the blob keeps the content that its name promises.
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(document, stream, indent=2)
    Path(temporary).replace(file)
    return True


def main() -> None:
    """`--hub DIR state|fetch REPO [REVISION]` or `--hub DIR patch JSON`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hub", type=Path, required=True)
    parser.add_argument("command", choices=("state", "fetch", "patch"))
    parser.add_argument("subject")
    parser.add_argument("revision", nargs="?", default="")
    options = parser.parse_args()
    if options.command == "state":
        print(state(options.hub, options.subject, options.revision))
    elif options.command == "fetch":
        print(fetch(options.hub, options.subject, options.revision))
    else:
        print(patch(options.hub, json.loads(options.subject)))


if __name__ == "__main__":
    main()
