"""JSON to frozen dataclasses and back, driven by the type hints, with nothing repaired: what does not fit is refused.

Known hints: dataclasses, `tuple[T, ...]`, `dict[str, T]`, `Literal` of texts, `T | None`, `str`, `bool`, `int`, `float`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from typing import Any, Literal, TypeVar

T = TypeVar("T")


class ShapeError(Exception):
    """Data that is not of the wanted shape. `route` is where in it (empty: the whole), `problem` what is wrong there."""

    def __init__(self, route: str, problem: str) -> None:
        super().__init__(f"{route}: {problem}")
        self.route = route
        self.problem = problem


def parsed(text: bytes) -> Any:
    """The value in UTF-8 JSON. Raises ShapeError for anything else, and where an object repeats a key."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=_refused_constant)
    except UnicodeDecodeError as error:
        raise ShapeError("", f"is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise ShapeError("", f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except (RecursionError, ValueError) as error:
        raise ShapeError("", f"cannot be read: {type(error).__name__}") from None


def decoded(kind: type[T], data: object) -> T:
    """The dataclass `kind` in parsed JSON. Raises ShapeError for the first thing that does not fit."""
    return typing.cast("T", _decoded(kind, data, ""))


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ShapeError(next(key for key in keys if keys.count(key) > 1), "stands twice in the same object")
    return found


def _refused_constant(name: str) -> Any:
    raise ShapeError("", f"holds {name}, which is not a JSON number")


def encoded(value: Any) -> Any:
    """Dictionaries, lists and scalars: fields in their order, mappings sorted by key, tuples as lists."""
    if dataclasses.is_dataclass(value):
        return {field.name: encoded(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: encoded(value[key]) for key in sorted(value)}
    return [encoded(item) for item in value] if isinstance(value, tuple) else value


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decoded(hint: Any, data: Any, route: str) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [option for option in typing.get_args(hint) if option is not type(None)]
        return None if data is None else _decoded(inner[0], data, route)
    if origin is Literal:
        return _decoded_literal(typing.get_args(hint), data, route)
    if origin is tuple:
        items = _checked(list, "a list", data, route)
        return tuple(_decoded(typing.get_args(hint)[0], item, f"{route}[{i}]") for i, item in enumerate(items))
    if origin is dict:
        pairs = _checked(dict, "an object", data, route)
        return {_text(key, route): _decoded(typing.get_args(hint)[1], item, f"{route}.{key}") for key, item in pairs.items()}
    if dataclasses.is_dataclass(hint):
        return _decoded_fields(hint, data, route)
    return _decoded_scalar(hint, data, route)


def _decoded_fields(kind: Any, data: Any, route: str) -> Any:
    pairs, hints = _checked(dict, "an object", data, route), _hints(kind)
    prefix = f"{route}." if route else ""
    for key in sorted(pairs.keys() - hints.keys()):
        raise ShapeError(f"{prefix}{key}", "is unknown")
    for key in hints:
        if key not in pairs:
            raise ShapeError(f"{prefix}{key}", "is missing")
    return kind(**{key: _decoded(hints[key], pairs[key], f"{prefix}{key}") for key in hints})


def _decoded_literal(choices: tuple[Any, ...], data: Any, route: str) -> Any:
    if not isinstance(data, str) or data not in choices:
        raise ShapeError(route, f"must be one of {', '.join(map(str, choices))}, not {_shown(data)}")
    return data


def _decoded_scalar(kind: Any, data: Any, route: str) -> Any:
    if kind is str:
        return _text(_checked(str, "text", data, route), route)
    if kind is bool:
        return _checked(bool, "true or false", data, route)
    if isinstance(data, bool) or not isinstance(data, (int, float) if kind is float else int):
        raise ShapeError(route, f"must be a {'' if kind is float else 'whole '}number, not {_shown(data)}")
    if kind is float and not _is_finite(data):
        raise ShapeError(route, "must be a finite number")
    return kind(data)


def _is_finite(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _checked(kind: type[T], wanted: str, data: Any, route: str) -> T:
    if not isinstance(data, kind):
        raise ShapeError(route, f"must be {wanted}, not {_shown(data)}")
    return data


def _text(text: str, route: str) -> str:
    """`text`, if a process can be given it: no NUL and no lone surrogate."""
    if "\0" in text or (not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)):
        raise ShapeError(route, "holds a character that neither arguments nor environment can carry")
    return text


def _shown(data: Any) -> str:
    return "null" if data is None else "an object" if isinstance(data, dict) else "a list" if isinstance(data, list) else repr(data)[:40]
