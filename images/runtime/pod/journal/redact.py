"""No secret leaves the pod: values that are known, and shapes of tokens that nobody told us about.

Both are looked for in the text, behind one or two layers of URL, JSON, Python and HTML escapes, over wrapped lines, and, for known
values, inside base64 at any alignment, which is how Basic authentication carries them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pod.journal.views import View, views

MASK = "[redacted]"
# Values shorter than this are words: masking them would mask half of every line, and they protect nothing.
MIN_VALUE_CHARS = 4
# Base64 of a part of a value shorter than this occurs in ordinary words.
_MIN_CORE_CHARS = 5
_BASE64_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-=")
_CREDENTIALS = re.compile(r"(?i)basic[\s+:]+([A-Za-z0-9+/_-]{4,}={0,2})")

# The first group, where there is one, is what must go. The digit or capital asked for keeps words such as `hf_overrides` readable.
SHAPES = tuple(re.compile(shape) for shape in (
    r"hf_(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{16,}",  # Hugging Face
    r"api_org_[A-Za-z0-9]{16,}",
    r"sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic and those who copy them
    r"rpa_(?=[a-z]*[0-9A-Z])[A-Za-z0-9]{16,}",  # RunPod
    r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}",
    r"AKIA[A-Z0-9]{16}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",  # JSON Web Token
    r"""(?i)bearer[\s+:]+([^\s"',;\\<>{}()]{4,})""",
    r"""(?i)(?:x-api-key|api[-_]key|password|passwd|client_secret|hf_token|access_token|auth_token)["']?"""
    r"""\s*[:=]\s*\[?["']?(?!redacted\])([^\s"',;&\\<>{}()\[\]]{4,})""",
    r"""(?i)--api-key[\s=]+["']?(?!redacted\])([^\s"',\[\]]{4,})""",
    r"://[^\s/@:]*:([^\s/@]+)@",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.+?)(?:-----END|\Z)",
))  # fmt: skip
_SECRET_NAME = re.compile(r"(?i)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL)S?(?:_|$)|_KEY$")


def secret_values(environ: Mapping[str, str], names: Iterable[str] = ()) -> list[str]:
    """Values of the named variables and of all whose name says that they are secret."""
    wanted = set(names)
    return [value for name, value in environ.items() if value and (name in wanted or _SECRET_NAME.search(name))]


class Redactor:
    """Masks `values` and token `shapes`. One object serves the whole runtime; it never raises on any text."""

    def __init__(self, values: Iterable[str], shapes: Iterable[re.Pattern[str]] = SHAPES) -> None:
        self._shapes = tuple(shapes)
        variants = {variant for value in values for variant in _variants(value) if variant not in MASK}
        self._values = sorted(variants, key=len, reverse=True)
        self._cores = sorted({core for variant in variants for core in _base64_cores(variant)})

    def text(self, text: str) -> str:
        """The same text, with every secret replaced by `MASK`; line breaks inside one are kept."""
        spans = sorted({view.source(start, end) for view in views(text) for start, end in self._found(view)})
        if not spans:
            return text
        pieces, at = [], 0
        for start, end in _merged(spans):
            pieces += [text[at:start], MASK, "\n" * text.count("\n", start, end)]
            at = end
        return "".join([*pieces, text[at:]])

    def value(self, value: Any) -> Any:
        """The same JSON value, with every text in it redacted, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, (list, tuple)) else value

    def _found(self, view: View) -> Iterator[tuple[int, int]]:
        for value in self._values:
            yield from _occurrences(view.text, value)
        for core in self._cores:
            for start, end in _occurrences(view.text, core):
                yield _whole_run(view.text, start, end)
        for shape in self._shapes:
            for match in shape.finditer(view.text):
                yield match.span(match.lastindex or 0)
        for match in _CREDENTIALS.finditer(view.text):
            if _is_user_and_password(match.group(1)):
                yield match.span(1)


def _variants(value: str) -> Iterator[str]:
    lines = value.splitlines()
    for variant in (value, value.strip(), "".join(lines), value.replace(" ", "+"), *(line.strip() for line in lines if len(lines) > 1)):
        if len(variant) >= MIN_VALUE_CHARS:
            yield variant


def _base64_cores(value: str) -> Iterator[str]:
    """What base64 of any text around `value` must hold: its characters that depend on `value` alone, for each of three alignments."""
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        core = encoded[-(-before * 8 // 6):(before + len(data)) * 8 // 6]
        if len(core) >= _MIN_CORE_CHARS:
            yield core
            yield core.replace("+", "-").replace("/", "_")


def _occurrences(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    at = text.find(wanted)
    while at >= 0:
        yield at, at + len(wanted)
        at = text.find(wanted, at + 1)


def _whole_run(text: str, start: int, end: int) -> tuple[int, int]:
    while start > 0 and text[start - 1] in _BASE64_CHARS:
        start -= 1
    while end < len(text) and text[end] in _BASE64_CHARS:
        end += 1
    return start, end


def _is_user_and_password(encoded: str) -> bool:
    padded = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return b":" in base64.b64decode(padded + "=" * (-len(padded) % 4))
    except (binascii.Error, ValueError):
        return False


def _merged(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    first, last = -1, -1
    for start, end in spans:
        if start > last and last >= 0:
            yield first, last
            first = start
        elif last < 0:
            first = start
        last = max(last, end)
    if last >= 0:
        yield first, last
