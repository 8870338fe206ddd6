"""Specs that read differently than they are written: what a question such as `--what-if` is planned on. Nothing is saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from compiler.diagnostics import Diagnostic
from compiler.load.store import SpecStore, logical
from compiler.load.yaml_text import Document


class OverlaidStore(SpecStore):
    """A store over `below` in which the documents of `data`, by logical path, hold other data.

    Lines and columns stay those of the file. A path that `below` does not have is a document all the same. What `below` has
    read is not read again.
    """

    def __init__(self, below: SpecStore, data: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(below.roots)
        self._below, self._data = below, data
        self._files, self._texts, self._flags, self._locks, self._measurements = (
            below._files,
            below._texts,
            below._flags,
            below._locks,
            below._measurements,
        )
        self._specs = {key: found for key, found in below._specs.items() if logical(*key) not in data}
        self._hashes = below._hashes

    def exists(self, path: str) -> bool:
        """True for a document of the overlay, or of the store below."""
        return path in self._data or self._below.exists(path)

    def document(self, path: str) -> tuple[Document, list[Diagnostic]]:
        """The overlay's data where it has some, with the marks of the file; else the document below."""
        if path not in self._data:
            self._documents[path] = self._below.document(path)
            return self._documents[path]
        if path not in self._documents:
            under, problems = self._below.document(path) if self._below.exists(path) else (Document(path, (), None, {}), [])
            self._documents[path] = (Document(path, under.lines, dict(self._data[path]), under.marks), problems)
        return self._documents[path]

    def file_hash(self, path: str) -> str:
        """The sha256 of a file that was read; of the changed data where the overlay has some."""
        if path not in self._data:
            return super().file_hash(path)
        return hashlib.sha256(json.dumps(self._data[path], sort_keys=True, default=str).encode()).hexdigest()
