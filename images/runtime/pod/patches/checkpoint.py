"""Repairs of a downloaded checkpoint's JSON files: values that a list must hold. Standard library only.

The snapshot holds links into the blob store. The link is replaced by a file of our own, so the blob keeps the content that its
name promises, and another snapshot that shares it is not changed with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pod.contract import ConfigPatch
from pod.hub.files import write_atomically
from pod.patches.outcomes import AlreadyThere, Applied, Outcome, Refused


class _Unexpected(Exception):
    """The file is not what the patch was written for; the text is the end of a sentence about it."""


def apply(patch: ConfigPatch, repo: str, snapshot: Path | None) -> Outcome:
    """Append to the list at the patch's place what it lacks. Raises nothing.

    The list itself may be missing where everything above it is there, as in a configuration that excludes nothing yet.
    """
    name = f"{repo}/{patch.file}: {'.'.join(patch.key_path)}"
    fix = "look whether the checkpoint has changed; pin its revision, or take the patch out of the model spec and publish again"
    if snapshot is None:
        return Refused(name, f"{repo} is not on disk, so {patch.file} cannot be repaired", "nothing: it is fetched first", may_pass=True)
    file = snapshot / patch.file
    try:
        document = _document(file)
        missing = [value for value in patch.append if value not in _list_in(document, patch)]
        if not missing:
            return AlreadyThere(name, f"already holds {', '.join(patch.append)}")
        _list_in(document, patch).extend(missing)
        write_atomically(file, json.dumps(document, indent=2, ensure_ascii=False).encode())
        if any(value not in _list_in(_document(file), patch) for value in patch.append):
            raise _Unexpected("does not hold what was written to it")
    except _Unexpected as problem:
        return Refused(name, f"{patch.file} of {repo} {problem}", fix)
    except OSError as error:
        return Refused(name, f"{file} cannot be written: {error.strerror}", "look at the disk and the rights of the cache's folder")
    return Applied(name, f"now holds {', '.join(missing)}")


def _document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise _Unexpected("does not exist") from None
    except (ValueError, RecursionError):
        raise _Unexpected("is not JSON") from None
    if not isinstance(document, dict):
        raise _Unexpected("holds no JSON object")
    return document


def _list_in(document: dict[str, Any], patch: ConfigPatch) -> list[Any]:
    node: Any = document
    for depth, key in enumerate(patch.key_path[:-1]):
        node = node.get(key) if isinstance(node, dict) else None
        if not isinstance(node, dict):
            raise _Unexpected(f"has no object at {'.'.join(patch.key_path[: depth + 1])}")
    found = node.setdefault(patch.key_path[-1], [])
    if not isinstance(found, list):
        raise _Unexpected(f"has no list at {'.'.join(patch.key_path)}")
    return found
