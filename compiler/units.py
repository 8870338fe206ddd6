"""Quantities as people write them (`80GiB`, `30s`, `1Mi`) become typed numbers once, here.

Decimal prefixes are powers of ten and binary prefixes powers of two, as the IEC has them: a context of `1M` is
1,000,000 tokens and one of `1Mi` is 1,048,576.
"""

from __future__ import annotations

import re

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*$")

GIB = 1 << 30
MIB = 1 << 20


def size_bytes(text: str | int) -> int:
    """Bytes of `"80GiB"`, `"26.1GB"`, `"512MiB"` or a plain count. Raises ValueError for anything else."""
    number, suffix = _parts(text)
    if suffix in ("", "B"):
        return _whole(number, text)
    prefix = suffix.removesuffix("B")
    if not suffix.endswith("B") or prefix not in _BINARY | _DECIMAL:
        raise ValueError(f"not a size: {text!r}; write for instance 80GiB, 26.1GB or 512MiB")
    return round(number * (_BINARY | _DECIMAL)[prefix])


def token_count(text: str | int) -> int:
    """Tokens of `"256Ki"`, `"1M"` or a plain count. Raises ValueError for anything else."""
    number, suffix = _parts(text)
    if suffix not in _BINARY | _DECIMAL:
        raise ValueError(f"not a number of tokens: {text!r}; write for instance 131072, 256Ki or 1M")
    return _whole(number * (_BINARY | _DECIMAL)[suffix], text)


def duration_seconds(text: str | int | float) -> float:
    """Seconds of `"30s"`, `"2min"`, `"1.5h"` or a plain number. Raises ValueError for anything else."""
    number, suffix = _parts(text)
    if suffix and suffix not in _SECONDS:
        raise ValueError(f"not a duration: {text!r}; write for instance 30s, 2min or 1h")
    return number * _SECONDS.get(suffix, 1.0)


def gib(count: int | float) -> float:
    """A number of bytes in GiB (2^30)."""
    return count / GIB


def grouped(count: int) -> str:
    """`1048576` as `1,048,576`."""
    return f"{count:,}"


def _parts(text: str | int | float) -> tuple[float, str]:
    if isinstance(text, bool):
        raise ValueError(f"not a quantity: {text!r}")
    if isinstance(text, (int, float)):
        return float(text), ""
    match = _QUANTITY.match(text)
    if not match:
        raise ValueError(f"not a quantity: {text!r}; a number and a unit, for instance 80GiB, 30s or 1M")
    return float(match[1]), match[2]


def _whole(number: float, text: object) -> int:
    if number != int(number):
        raise ValueError(f"not a whole number: {text!r}")
    return int(number)
