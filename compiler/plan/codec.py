"""Plans to JSON and back: dataclasses, tuples, mappings and scalars, driven by the type hints alone."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from typing import Any, TypeVar

T = TypeVar("T")


def to_json(value: object) -> Any:
    """`value` as dictionaries, lists and scalars. Keys keep the order of the fields; mappings are sorted by key."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_json(getattr(value, name)) for name in _field_names(type(value))}
    if isinstance(value, dict):
        return {key: to_json(value[key]) for key in sorted(value)}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 12.0 and 12 are one number: JSON readers in other languages print them alike.
    return value


def from_json(kind: type[T], data: object) -> T:
    """The inverse of `to_json` for a dataclass `kind`. Raises TypeError or KeyError for data of another shape."""
    return typing.cast("T", _decoded(kind, data))


@functools.cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(kind))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decoded(hint: Any, data: Any) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _decoded_union(typing.get_args(hint), data)
    if origin is tuple:
        return tuple(_decoded(typing.get_args(hint)[0], item) for item in data)
    if origin is dict:
        return {key: _decoded(typing.get_args(hint)[1], item) for key, item in data.items()}
    if dataclasses.is_dataclass(hint):
        hints = _hints(typing.cast("type", hint))
        if set(data) != set(hints):
            raise KeyError(f"{hint}: fields differ: {sorted(set(data) ^ set(hints))}")
        return typing.cast("Any", hint)(**{name: _decoded(hints[name], data[name]) for name in hints})
    if hint is object:
        return _frozen(data)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(data)
    if hint is float and isinstance(data, int):
        return float(data)
    return data


def _frozen(data: Any) -> Any:
    """Free-form values: their lists are tuples in a plan, at every depth."""
    if isinstance(data, dict):
        return {key: _frozen(item) for key, item in data.items()}
    return tuple(_frozen(item) for item in data) if isinstance(data, list) else data


def _decoded_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None:
        return None
    for option in options:
        if isinstance(data, list) and typing.get_origin(option) is tuple:
            return _decoded(option, data)
        if isinstance(data, dict) and (dataclasses.is_dataclass(option) or typing.get_origin(option) is dict):
            return _decoded(option, data)
    if float in options and int not in options and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return _frozen(data)
