"""Options in a command line that is a list of words: read, replaced, taken out. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Argv = tuple[str, ...]


def with_option(argv: Sequence[str], option: str, *values: str) -> Argv:
    """`argv` in which `option` has exactly `values`: in its old place, or at the end where it was not given."""
    kept, place = _split_off(argv, option)
    return (*kept[:place], option, *values, *kept[place:])


def without_option(argv: Sequence[str], option: str) -> Argv:
    """`argv` without an option, its values and its `--no-` form."""
    return tuple(_split_off(argv, option)[0])


def with_switch(argv: Sequence[str], option: str, is_on: bool) -> Argv:
    """`argv` with a bare option, or with its `--no-` form."""
    kept, place = _split_off(argv, option)
    return (*kept[:place], option if is_on else "--no-" + option.removeprefix("--"), *kept[place:])


def values_of(argv: Sequence[str], option: str) -> tuple[str, ...] | None:
    """The values of an option; empty for a bare one, None where it is not given."""
    found: list[str] | None = None
    for word in argv:
        if word.startswith("--"):
            if found is not None:
                break
            name, has_value, value = word.partition("=")
            if name == option:
                found = [value] if has_value else []
        elif found is not None:
            found.append(word)
    return None if found is None else tuple(found)


def json_of(argv: Sequence[str], option: str) -> dict[str, Any]:
    """The object that an option carries as JSON; empty where there is none."""
    values = values_of(argv, option)
    try:
        data = json.loads(values[0]) if values else {}
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def with_json(argv: Sequence[str], option: str, data: Mapping[str, Any]) -> Argv:
    """`argv` in which `option` carries an object; an empty one takes the option out."""
    return with_option(argv, option, json.dumps(data, sort_keys=True, separators=(",", ":"))) if data else without_option(argv, option)


def _split_off(argv: Sequence[str], option: str) -> tuple[list[str], int]:
    """`argv` without an option, its values and its `--no-` form, and where the first of them stood (else: the end)."""
    spellings = (option, "--no-" + option.removeprefix("--"))
    kept: list[str] = []
    place: int | None = None
    is_skipping = False
    for word in argv:
        if word.startswith("--"):
            is_skipping = word.partition("=")[0] in spellings
            if is_skipping and place is None:
                place = len(kept)
        if not is_skipping:
            kept.append(word)
    return kept, len(kept) if place is None else place
