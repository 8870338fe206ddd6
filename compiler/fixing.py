"""`podwright lint --fix`: makes the changes that rules carry, in the files that people wrote, until none is left."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path

from compiler.artifact import write_text
from compiler.diagnostics import Diagnostic, Edit
from compiler.load import SpecStore, data_root, edited

PASSES = 8  # A change may bring up another; rules that undo each other must still come to an end.


def fixed(
    found: Callable[[SpecStore], Sequence[Diagnostic]], roots: Sequence[Path]
) -> tuple[SpecStore, list[Diagnostic], dict[Path, tuple[str, str]]]:
    """Lints with `found`, makes each edit that its findings carry, and lints again until nothing changes.

    Gives the store of the last look, its findings, and each changed file with its text before and after. A file is written
    whole or not at all. A change after which a spec cannot be used is taken back. Raises OSError where a file cannot be written.
    """
    changed: dict[Path, tuple[str, str]] = {}
    refused: set[Edit] = set()
    store = SpecStore(roots)
    diagnostics = list(found(store))
    for _ in range(PASSES):
        step = _step(store, [d.edit for d in diagnostics if d.edit is not None and d.edit not in refused])
        if not step:
            break
        for file, (_, after, _) in step.items():
            _write(file, after)
        store = SpecStore(roots)
        seen = list(found(store))
        if _unusable(seen) > _unusable(diagnostics):
            for file, (before, _, edits) in step.items():
                _write(file, before)
                refused |= edits
            store = SpecStore(roots)
            continue
        diagnostics = seen
        for file, (before, after, _) in step.items():
            changed[file] = (changed[file][0] if file in changed else before, after)
    return store, diagnostics, {file: texts for file, texts in changed.items() if texts[0] != texts[1]}


def diff(file: Path, before: str, after: str) -> str:
    """The change of one file as a unified diff."""
    shown = _shown(file)
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"{shown} (before)", f"{shown} (after)", lineterm="")
    return "\n".join(lines)


def _step(store: SpecStore, edits: Sequence[Edit]) -> dict[Path, tuple[str, str, set[Edit]]]:
    """Each file with an edit: its text before, after, and the edits made. One edit a file where routes would move under the next."""
    texts: dict[Path, tuple[str, str, set[Edit]]] = {}
    for edit in dict.fromkeys(edits):
        file = store.file(edit.place.path)
        if file is None or not _is_own(file):
            continue
        target = file.resolve()
        if target in texts and any(isinstance(part, int) for part in edit.place.route):
            continue  # An item's number may have changed; the next look finds it again.
        before, current, made = texts.get(target) or (_read(target), "", set())
        after = edited(current or before, edit)
        if after is not None:
            texts[target] = (before, after, made | {edit})
    return texts


def _is_own(file: Path) -> bool:
    """False for specs inside an installed package: the next install would undo the change."""
    root = data_root()
    return root.name != "_data" or not file.resolve().is_relative_to(root.resolve())


def _unusable(diagnostics: Sequence[Diagnostic]) -> int:
    return sum(d.is_error and d.code.startswith("SPC") for d in diagnostics)


def _read(file: Path) -> str:
    with file.open(encoding="utf-8", newline="") as stream:
        return stream.read()


def _write(file: Path, text: str) -> None:
    mode = file.stat().st_mode & 0o7777
    write_text(file, text)
    file.chmod(mode)


def _shown(file: Path) -> str:
    try:
        return file.relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return file.as_posix()
