"""Quantities as people write them (`80GiB`, `30s`, `1Mi`) become typed numbers once, here.

Decimal prefixes are powers of ten and binary prefixes powers of two, as the IEC has them: a context of `1M` is
1,000,000 tokens and one of `1Mi` is 1,048,576.
"""

from __future__ import annotations

import re
from typing import TypeVar

N = TypeVar("N", int, float)

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"[ ]*([0-9]+)(\.[0-9]+)?[ ]*([A-Za-z]*)[ ]*")
LARGEST = 1 << 60  # An exabyte: beyond it a number is a slip of the finger, and floats stop counting single tokens long before.

GIB = 1 << 30
MIB = 1 << 20


def size_bytes(text: str | int) -> int:
    """Bytes of `"80GiB"`, `"26.1GB"`, `"512MiB"` or a plain count. Raises ValueError for anything else."""
    number, suffix = _parts(text)
    if suffix in ("", "B"):
        return _bounded(_whole(number, text), text)
    prefix = suffix.removesuffix("B")
    if not suffix.endswith("B") or prefix not in _BINARY | _DECIMAL:
        raise ValueError(f"not a size: {_shown(text)}; write for instance 80GiB, 26.1GB or 512MiB")
    return _bounded(round(number * (_BINARY | _DECIMAL)[prefix]), text)


def token_count(text: str | int) -> int:
    """Tokens of `"256Ki"`, `"1M"` or a plain count. Raises ValueError for anything else."""
    if str(text).strip().startswith("-"):
        raise ValueError(f"a number of tokens is greater than 0, not {_shown(text)}; for max_model_len, `auto` takes the largest window that fits")
    number, suffix = _parts(text)
    if suffix not in _BINARY | _DECIMAL:
        raise ValueError(f"not a number of tokens: {_shown(text)}; write for instance 131072, 256Ki or 1M")
    return _bounded(_whole(number * (_BINARY | _DECIMAL)[suffix], text), text)


def duration_seconds(text: str | int | float) -> float:
    """Seconds of `"30s"`, `"2min"`, `"1.5h"` or a plain number. Raises ValueError for anything else."""
    number, suffix = _parts(text)
    if suffix and suffix not in _SECONDS:
        raise ValueError(f"not a duration: {_shown(text)}; write for instance 30s, 2min or 1h")
    return float(_bounded(number * _SECONDS.get(suffix, 1.0), text))


def gib(count: int | float) -> float:
    """A number of bytes in GiB (2^30)."""
    return count / GIB


def grouped(count: int) -> str:
    """`1048576` as `1,048,576`."""
    return f"{count:,}"


def _parts(text: object) -> tuple[int | float, str]:
    """The number, exact where it is whole, and the suffix."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return text, ""
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise ValueError(f"not a quantity: {_shown(text)}; a number and a unit, for instance 80GiB, 30s or 1M")
    if len(match[1]) > len(str(LARGEST)):
        raise ValueError(f"too large: {_shown(text)}")
    return float(match[1] + match[2]) if match[2] else int(match[1]), match[3]


def _whole(number: int | float, text: object) -> int:
    if isinstance(number, float) and not number.is_integer():
        raise ValueError(f"not a whole number: {_shown(text)}")
    return int(number)


def _bounded(number: N, text: object) -> N:
    if not abs(number) <= LARGEST:
        raise ValueError(f"too large: {_shown(text)}")
    return number


def _shown(text: object, limit: int = 60) -> str:
    words = repr(text)
    return words if len(words) <= limit else words[: limit - 1] + "…"
