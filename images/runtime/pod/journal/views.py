"""One text seen through escapes and line breaks, with the way back: a span found in a view names a span of the text itself.

A secret that was URL-encoded, JSON-escaped or wrapped over lines is plain in one of the views.
"""

from __future__ import annotations

import bisect
import html
import re
from collections.abc import Callable

# A line break inside a wrapped value: real or escaped, with the next line's indentation and the name that vLLM puts before each line.
_BREAK = re.compile(r"\\?\r?\n(?:\([^()\n]{1,40}\) )?[ \t]*")
_ESCAPE = re.compile(
    r"(?:%[0-9A-Fa-f]{2})+"
    r"|(?:\\u[dD][89aAbB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2})"
    r"|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
    r"|\\x[0-9A-Fa-f]{2}"
    r"|\\[\"'\\/bfnrt]"
    r"|&(?:amp|lt|gt|quot|apos|#[0-9]{1,6}|#[xX][0-9A-Fa-f]{1,5});"
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class View:
    """`text` is what is seen. `source(start, end)` is the span of the original text behind a span of `text`."""

    def __init__(self, text: str, below: View | None = None, pieces: list[tuple[int, int, int]] | None = None) -> None:
        self.text = text
        self._below = below
        self._pieces = pieces or []
        self._starts = [piece[0] for piece in self._pieces]

    def source(self, start: int, end: int) -> tuple[int, int]:
        """For `start < end` within `text`."""
        if self._below is None:
            return start, end
        first, _ = self._span_below(start)
        _, last = self._span_below(end - 1)
        return self._below.source(first, last)

    def _span_below(self, at: int) -> tuple[int, int]:
        seen_at, below_at, replaced_length = self._pieces[bisect.bisect_right(self._starts, at) - 1]
        if replaced_length:
            return below_at, below_at + replaced_length
        return below_at + at - seen_at, below_at + at - seen_at + 1

    def _replaced(self, pattern: re.Pattern[str], value: Callable[[str], str]) -> View:
        found = list(pattern.finditer(self.text))
        if not found:
            return self
        texts: list[str] = []
        pieces: list[tuple[int, int, int]] = []
        length = at = 0
        for match in found:
            new = value(match.group())
            for text, start, replaced_length in ((self.text[at:match.start()], at, 0), (new, match.start(), match.end() - match.start())):
                if text:
                    pieces.append((length, start, replaced_length))
                    texts.append(text)
                    length += len(text)
            at = match.end()
        if at < len(self.text):
            pieces.append((length, at, 0))
            texts.append(self.text[at:])
        return View("".join(texts), self, pieces)

    def without_breaks(self) -> View:
        """The same with wrapped lines joined; itself where there is no break."""
        return self._replaced(_BREAK, lambda _: "")

    def unescaped(self) -> View:
        """The same with one layer of URL, JSON, Python and HTML escapes undone; itself where there is none."""
        return self._replaced(_ESCAPE, _plain)


def views(text: str) -> list[View]:
    """The text itself and what can be seen through two layers of escapes, each with and without its line breaks."""
    found = [View(text)]
    for _ in range(2):
        for step in (View.without_breaks, View.unescaped):
            after = step(found[-1])
            if after is not found[-1]:
                found.append(after)
    last = found[-1].without_breaks()
    return found if last is found[-1] else [*found, last]


def _plain(escape: str) -> str:
    if escape[0] == "%":
        return bytes.fromhex(escape.replace("%", "")).decode("utf-8", "replace")
    if escape[0] == "&":
        return html.unescape(escape)
    kind = escape[1]
    if kind in "xU" or (kind == "u" and len(escape) == 6):
        code = int(escape[2:], 16)
        return chr(code) if code <= 0x10FFFF else escape
    if kind == "u":
        return (chr(int(escape[2:6], 16)) + chr(int(escape[8:], 16))).encode("utf-16", "surrogatepass").decode("utf-16")
    return _SHORT.get(kind, kind)
