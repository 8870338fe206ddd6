"""Plain data against a spec's model: every pydantic error becomes a diagnostic with a place, a reason and a cure."""

from __future__ import annotations

import difflib
import types
import typing
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from compiler.diagnostics import Diagnostic, Place, Route, Severity, dotted
from compiler.load.yaml_text import shown
from compiler.schema import ProfileSpec
from compiler.schema.base import Choice, Spec

_PLAIN = {
    "string_pattern_mismatch": "the text does not have the form that this key needs",
    "string_type": "text belongs here; quote it",
    "int_type": "a whole number belongs here",
    "float_type": "a number belongs here",
    "bool_type": "true or false belongs here",
    "tuple_type": "a list belongs here",
    "dict_type": "a mapping of keys to values belongs here",
    "model_type": "a mapping of keys to values belongs here",
}
"""What the library says in the words of Python, in the words of YAML."""
_TYPING_SLIP = 0.85  # From this likeness on a key is another one mistyped.
MOST_FINDINGS = 100  # Of one file: a wrong file has thousands, and nobody reads them.


def validated(kind: type[Spec], path: str, data: Any) -> tuple[Any, list[Diagnostic]]:
    """`data` as a `kind`, or None with all that is wrong."""
    if not isinstance(data, dict):
        what = "a spec must be a mapping of keys to values"
        return None, [Diagnostic("SPC010", Severity.ERROR, what, "Nothing in it can be read.", "Write `key: value` lines.", Place(path))]
    try:
        return kind.model_validate(data), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[:MOST_FINDINGS]
        found = {(d.code, d.place.route, d.what): d for d in (_diagnostic(kind, path, data, e) for e in details)}
        return None, list(_without_union_noise(found).values())


def _diagnostic(kind: type[Spec], path: str, data: Any, error: ErrorDetails) -> Diagnostic:
    route = _route_in(data, error["loc"])
    if error["type"] == "extra_forbidden":
        return _unknown_key(kind, path, route)
    if error["type"] == "missing":
        return _missing_key(kind, path, route, str(error["loc"][-1]))
    what = f"`{shown(dotted(route), 120)}`: {_plain(error)}" if route else _plain(error)
    return Diagnostic("SPC013", Severity.ERROR, what, "The value cannot be used as it stands.", _cure(kind, route), Place(path, route))


def _unknown_key(kind: type[Spec], path: str, route: Route) -> Diagnostic:
    key = str(route[-1])
    known = sorted({name for model in _models_at(kind, route[:-1]) for name in model.model_fields})
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    fix = f"Did you mean `{close[0]}`?" if close else f"Known keys here: {', '.join(known) or 'none'}."
    if kind is ProfileSpec and route[:-1] == ("settings",) and not difflib.get_close_matches(key, known, n=1, cutoff=_TYPING_SLIP):
        fix += " Any other option of the engine stands under `engine_args:`."
    what = f"unknown key `{shown(key)}`" + (f" in `{shown(dotted(route[:-1]), 120)}`" if len(route) > 1 else "")
    return Diagnostic("SPC011", Severity.ERROR, what, "A key that is not read would change nothing, silently.", fix, Place(path, route), on_key=True)


def _missing_key(kind: type[Spec], path: str, route: Route, key: str) -> Diagnostic:
    what = f"missing key `{key}`" + (f" in `{shown(dotted(route), 120)}`" if route else "")
    return Diagnostic("SPC012", Severity.ERROR, what, "Nothing can be decided without it.", f"Add `{key}:` {_meaning(kind, (*route, key))}", Place(path, route), on_key=True)


def _route_in(data: Any, loc: tuple[int | str, ...]) -> Route:
    """The part of a pydantic location that exists in the data: names of union members and wrappers drop out."""
    route: list[str | int] = []
    at = data
    for part in loc:
        if (isinstance(at, dict) and part in at) or (isinstance(at, (tuple, list)) and isinstance(part, int) and part < len(at)):
            route.append(part)
            at = at[part]  # type: ignore[index]
    return tuple(route)


def _without_union_noise(found: dict[Any, Diagnostic]) -> dict[Any, Diagnostic]:
    """A union reports one error for each member: keep the first of several wrong values at one route."""
    kept: dict[Any, Diagnostic] = {}
    seen: set[Route] = set()
    for key, d in found.items():
        if d.code == "SPC013" and d.place.route in seen:
            continue
        if d.code == "SPC013":
            seen.add(d.place.route)
        kept[key] = d
    return kept


def _plain(error: ErrorDetails) -> str:
    """The error in words, without the library's prefixes."""
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] in _PLAIN:
        return _PLAIN[error["type"]]
    return "it must" + message.removeprefix("Input should") if message.startswith("Input should") else message[0].lower() + message[1:]


def _cure(kind: type[Spec], route: Route) -> str:
    """To correct it, and what the key is for: a description alone is no advice."""
    keys = [part for part in route if isinstance(part, str) and part != "value"]
    meaning = _meaning(kind, route)
    return f"Correct it; `{shown(keys[-1])}` is: {meaning}" if keys and not meaning.startswith("See ") else f"Correct it. {meaning}"


def _meaning(kind: type[Spec], route: Route) -> str:
    """What the key at `route` is for, from its description."""
    if not route:
        return "See docs/specs."
    if route[-1] == "value":  # The value of a choice means what its key means.
        return _meaning(kind, route[:-1])
    for model in _models_at(kind, route[:-1]):
        field = model.model_fields.get(str(route[-1]))
        if field is not None and field.description:
            return " ".join(dict.fromkeys((field.description, *_forms(field))))
    return _meaning(kind, route[:-1]) if len(route) > 1 else "See docs/specs."


def _forms(field: FieldInfo) -> list[str]:
    """The form that a key's value takes: what its type says of itself, else its pattern."""
    inner = [m.description for arg in typing.get_args(field.annotation) for m in getattr(arg, "__metadata__", ()) if isinstance(m, FieldInfo) and m.description]
    return inner or [f"Form: {m.pattern}" for m in field.metadata if getattr(m, "pattern", None) and not m.pattern.startswith("^[^")]


def _models_at(kind: type[BaseModel], route: Route) -> list[type[BaseModel]]:
    """The models that may stand at `route`; several where the schema has a union."""
    current: list[type[BaseModel]] = [kind]
    for part in route:
        following: list[type[BaseModel]] = []
        for model in current:
            field = model.model_fields.get(str(part)) if isinstance(part, str) else None
            if field is not None:
                following += _models_in(field.annotation)
            elif isinstance(part, int):
                following.append(model)
        current = following or ([] if isinstance(part, str) else current)
    return current


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Models inside an annotation: through unions, optional, tuples, mappings and choices."""
    if isinstance(annotation, type) and issubclass(annotation, Choice):
        return [annotation, *_models_in(annotation.model_fields["value"].annotation)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, tuple, dict, typing.Annotated):
        return [model for arg in typing.get_args(annotation) for model in _models_in(arg)]
    return []
