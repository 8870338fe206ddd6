"""Reading a server's JSON without trusting it: an unknown field is passed over, a null or a wrong type is as good as absent."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from typing import Any


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects of a list; what is not one is passed over."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def text(value: object) -> str | None:
    """A text that says something; a number as its digits."""
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def texts(value: object) -> list[str]:
    """The texts of a list."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def number(value: object) -> float | None:
    """A finite number, also one written as text."""
    if isinstance(value, bool):
        return None
    try:
        found = float(value) if isinstance(value, (int, float, str)) else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def whole(value: object) -> int | None:
    """A whole number."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() else None


def moment(value: object) -> float | None:
    """Seconds since 1970 of an RFC 3339 text, or of a number of seconds or milliseconds."""
    if isinstance(value, str):
        try:
            read = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        return (read if read.tzinfo else read.replace(tzinfo=datetime.UTC)).timestamp()
    seconds = number(value)
    return None if seconds is None else seconds / 1000 if seconds > 1e11 else seconds
