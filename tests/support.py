"""Test help: shipped specs with changes applied, resolved into what a rule sees."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic, formatted, located
from compiler.lint.rule import Subject
from compiler.load import SpecStore, load_specset, logical
from compiler.load.store import extended
from compiler.load.yaml_text import Document
from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecSet

ROOT = Path(__file__).resolve().parent.parent
SPECS = ROOT / "specs"
Changes = Mapping[str, Mapping[str, object]]
REMOVE = "__remove__"


class ChangedStore(SpecStore):
    """A store in which single values of one profile's specs read differently."""

    def __init__(self, roots: list[Path], base: str, changes: Changes) -> None:
        super().__init__(roots)
        plain = _shipped() if roots == [SPECS] else SpecStore(roots)
        share_files(plain, self)
        self._replaced: dict[str, Any] = {}
        data, _, problems = extended(plain, base)
        assert data is not None, problems
        self._replace(logical("profile", base), data, changes.get("profile", {}))
        merged = self._replaced[logical("profile", base)]
        for kind in ("model", "hardware", "engine"):
            name = merged.get(kind)
            if kind in changes and isinstance(name, str):
                path = logical(kind, name)
                self._replace(path, plain.document(path)[0].data, changes[kind])

    def document(self, path: str) -> tuple[Document, list[Diagnostic]]:
        """The document with its changed data; marks and lines stay those of the file."""
        document, problems = super().document(path)
        if path in self._replaced:
            return Document(document.path, document.lines, self._replaced[path], document.marks), problems
        return document, problems

    def _replace(self, path: str, data: Any, changes: Mapping[str, object]) -> None:
        changed = copy.deepcopy(data)
        for route, value in changes.items():
            _set(changed, route.split("."), _tuples(value))
        self._replaced[path] = changed


@functools.cache
def _shipped() -> SpecStore:
    return SpecStore([SPECS])


def share_files(source: SpecStore, target: SpecStore) -> None:
    """Let two stores over the same unchanging folders read and check each file once."""
    target._files, target._texts, target._hashes, target._flags = source._files, source._texts, source._hashes, source._flags
    target._documents, target._measurements, target._locks = source._documents, source._measurements, source._locks


def _set(data: Any, route: list[str], value: object) -> None:
    """Set `route` in nested mappings (and tuples, by index), making mappings on the way; REMOVE deletes the key."""
    key, rest = route[0], route[1:]
    if not rest and value == REMOVE:
        data.pop(key, None)
    elif not rest:
        data[key] = value
    else:
        inner = data.get(key)
        if isinstance(inner, tuple):
            items = [copy.deepcopy(i) for i in inner]
            _set(items[int(rest[0])], rest[1:], value) if rest[1:] else items.__setitem__(int(rest[0]), value)
            data[key] = tuple(items)
            return
        if not isinstance(inner, dict):
            data[key] = {}
        _set(data[key], rest, value)


def _tuples(value: object) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    return value


def specset(base: str, changes: Changes | None = None, roots: list[Path] | None = None) -> SpecSet:
    """The specs of a shipped profile with `changes` ({kind: {dotted.route: value}}). Raises AssertionError with the findings when unusable."""
    store = ChangedStore(roots or [SPECS], base, changes or {})
    found, problems = load_specset(store, base)
    assert found is not None, "\n".join(formatted(d) for d in located(problems, store))
    return found


def subject(base: str, changes: Changes | None = None) -> Subject:
    """What a rule sees of a shipped profile with `changes`, before rendering."""
    specs = specset(base, changes)
    return Subject(specs, resolve_plan(specs), {})
