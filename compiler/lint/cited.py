"""Where choices cite evidence: the evidence lists of settings, variables and sections of a profile and its specs."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from compiler.diagnostics import Place, Route
from compiler.lint.rule import Subject
from compiler.schema.specset import SpecKind

# Sections that choose something. Facts about a model cite what was found, the bad with the good.
_CHOOSING: dict[SpecKind, tuple[str, ...]] = {"profile": (), "model": ("engine", "engine_args", "env"), "hardware": ("engine", "env")}


def citations(subject: Subject) -> Iterator[tuple[tuple[str, ...], Place]]:
    """The evidence ids that one choice rests on, with the place of the list, for each choice that cites any."""
    for kind, sections in _CHOOSING.items():
        spec: BaseModel = getattr(subject.specs, kind)
        for name in sections or tuple(type(spec).model_fields):
            for cited, route in _in(getattr(spec, name), (name,)):
                yield cited, subject.place(kind, *route)


def _in(value: object, route: Route) -> Iterator[tuple[tuple[str, ...], Route]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            inner = getattr(value, name)
            if name == "evidence" and isinstance(inner, tuple):
                if inner:
                    yield inner, (*route, name)
            else:
                yield from _in(inner, (*route, name))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _in(inner, (*route, str(key)))
    elif isinstance(value, tuple):
        for index, inner in enumerate(value):
            yield from _in(inner, (*route, index))
