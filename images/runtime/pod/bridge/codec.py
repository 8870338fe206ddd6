"""JSON for the bridge: `loads`, `dumps`, and `quoted` for one string inside a frame.

msgspec does the work where it is installed, as in every vLLM image: it reads a stream's chunk in a quarter of the standard
library's time. Elsewhere the standard library answers the same, only slower. Both refuse NaN and infinities, and neither
ever lets a lone surrogate out, which no UTF-8 reader could take.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, cast


class BadJsonError(ValueError):
    """Bytes that are no JSON. The message says what is wrong, never what the bytes hold."""


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def without_surrogates(value: Any) -> Any:
    """The value with halves of characters joined where they stand side by side, and replaced by U+FFFD where not."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


def tolerant_loads(data: bytes | bytearray | str, *, strict: bool = True, constants: Callable[[str], Any] = _refused_constant) -> Any:
    """The value in JSON, where bytes that are not UTF-8 and lone surrogates become U+FFFD. `strict=False` also takes raw
    control characters inside strings, which models write; `constants` gives a value to NaN and the infinities.
    Raises BadJsonError."""
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    try:
        return without_surrogates(json.loads(text, parse_constant=constants, strict=strict))
    except RecursionError:
        raise BadJsonError("nested too deeply") from None
    except ValueError as error:
        raise BadJsonError(error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__) from None


def loads_with_halves(data: bytes) -> Any:
    """The value in JSON, whose texts may begin or end with half a character. Raises BadJsonError."""
    try:
        return json.loads(data.decode("utf-8", "replace"), parse_constant=_refused_constant)
    except RecursionError:
        raise BadJsonError("nested too deeply") from None
    except ValueError as error:
        raise BadJsonError(error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__) from None


def standard_dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON by the standard library."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def standard_quoted(text: str) -> bytes:
    """A JSON string with its quotes by the standard library."""
    return encode_basestring(text).encode("utf-8", "replace")


try:
    _fast: Any = importlib.import_module("msgspec")
except ImportError:
    _fast = None
_read = _fast.json.Decoder().decode if _fast else None
_write = _fast.json.Encoder().encode if _fast else None


def loads(data: bytes | bytearray | str) -> Any:
    """The value in JSON. Raises BadJsonError."""
    if _read is not None:
        try:
            return _read(data)
        except Exception:  # what msgspec refuses (a lone surrogate, a huge number) may still be readable
            return tolerant_loads(data)
    return tolerant_loads(data)


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON."""
    if _write is not None:
        try:
            return cast("bytes", _write(value))
        except UnicodeEncodeError:
            return standard_dumps(value)
    return standard_dumps(value)


def quoted(text: str) -> bytes:
    """A JSON string with its quotes, on one line for every reader: U+2028, U+2029 and U+0085 are escaped."""
    if _write is not None:
        try:
            data = cast("bytes", _write(text))
        except UnicodeEncodeError:
            data = standard_quoted(text)
    else:
        data = standard_quoted(text)
    return data if data.isascii() else one_line(data)


def one_line(data: bytes) -> bytes:
    """JSON without the characters that some readers take for line ends. Only inside strings can they stand."""
    if b"\xe2\x80" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data.replace(b"\xc2\x85", b"\\u0085") if b"\xc2\x85" in data else data
