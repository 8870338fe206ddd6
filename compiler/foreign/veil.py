"""Specs and plans of which only a part is known. A rule that asks for the rest is not judged, instead of being told a guess."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from typing import Any

from compiler.lint.rule import Subject


class MissingFact(Exception):
    """A rule asked for what is not known; `fact` says what kind of fact."""

    def __init__(self, fact: str) -> None:
        super().__init__(fact)
        self.fact = fact


class Veil:
    """An object of which the attributes in `hidden` (or all but those in `known`) are not known."""

    def __init__(self, inner: Any, fact: str, *, known: Set[str] | None = None, hidden: Set[str] = frozenset()) -> None:
        self._inner, self._fact, self._known, self._hidden = inner, fact, known, hidden

    def __getattr__(self, name: str) -> Any:
        if (self._known is not None and name not in self._known) or name in self._hidden:
            raise MissingFact(self._fact)
        return getattr(self._inner, name)


@dataclasses.dataclass(frozen=True, slots=True)
class PartlyKnown(Subject):
    """A subject in which some settings have a value that nobody knows."""

    unknown_settings: frozenset[str] = frozenset()
    has_model: bool = True

    @property
    def knows_model(self) -> bool:
        """Whether a spec describes the model."""
        return self.has_model

    def setting(self, name: str) -> Any:
        """As for any subject; raises MissingFact for a setting whose value hangs on a variable."""
        if name in self.unknown_settings:
            raise MissingFact("variable")
        return Subject.setting(self, name)
