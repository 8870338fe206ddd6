"""Text with the place of each of its characters, so that a finding points into what the user wrote, however it was quoted."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence

from compiler.diagnostics import Diagnostic, Place, Position, Severity
from compiler.secrets import find_secrets

_LINE = re.compile(r"[^\n]*")
# The value of the engine's own key option has no shape of its own; a variable in its place is no secret.
_KEY_VALUE = re.compile(r"""--api[-_]key(?:=|(?:["',\s]|-\s)+)(?P<secret>[^\s"'$`{,]{4,})""")
MASK = "•"  # What is shown in place of each character of a secret.


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """From one offset of a source to another, the second one excluded. `source` is there for another one than what was given."""

    start: int
    end: int
    source: Source | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Some text, and for each of its characters the offset in the source that it came from."""

    text: str
    offsets: tuple[int, ...]

    def span(self) -> Span:
        """From its first character's place to its last one's."""
        return Span(min(self.offsets), max(self.offsets) + 1) if self.offsets else Span(0, 0)

    def cut(self, start: int, end: int | None = None) -> Piece:
        """Some of it, as a slice cuts text."""
        return Piece(self.text[start:end], self.offsets[start:end])


@dataclasses.dataclass(frozen=True, slots=True)
class Word:
    """One word of a command line: its piece, where it stands, and the variables in it that nobody gave a value."""

    piece: Piece
    span: Span
    unknown: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What the program would be given."""
        return self.piece.text

    def cut(self, start: int, end: int | None = None) -> Word:
        """A part of the word; it stands where its characters do, or, when it has none, where the word does."""
        piece = self.piece.cut(start, end)
        span = dataclasses.replace(piece.span(), source=self.span.source) if piece.offsets else self.span
        return Word(piece, span, self.unknown)


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """What the user gave: its name for messages, and its text with line breaks as they are."""

    path: str
    text: str

    def whole(self) -> Piece:
        """All of it."""
        return Piece(self.text, tuple(range(len(self.text))))

    def position(self, span: Span) -> Position:
        """Line and column of a span in its own source, and its line without secrets."""
        if span.source is not None and span.source is not self:
            return span.source.position(dataclasses.replace(span, source=None))
        before = self.text[: span.start]
        line, start = before.count("\n") + 1, before.rfind("\n") + 1
        shown = _LINE.match(self.text, start)
        length = len(shown[0].rstrip("\r")) if shown else 0
        text = hidden(self.text)[start : start + length]
        return Position(line, span.start - start + 1, max(1, min(span.end, start + length) - span.start), text)

    def finding(self, code: str, severity: Severity, what: str, why: str, fix: str, span: Span) -> Diagnostic:
        """A finding at a span."""
        return Diagnostic(code, severity, hidden(what), why, hidden(fix), self.place(span), self.position(span))

    def place(self, span: Span) -> Place:
        """The file that a span stands in."""
        return Place((span.source or self).path)


@functools.lru_cache(maxsize=8)  # Each position in a file asks for the same text.
def hidden(text: str) -> str:
    """The text with each secret in it made unreadable; it keeps its length and its lines, so that places stay right."""
    spans = [(found.start, found.end) for found in find_secrets(text)] + [match.span("secret") for match in _KEY_VALUE.finditer(text)]
    for start, end in spans:
        text = text[:start] + re.sub(r"[^\n]", MASK, text[start:end]) + text[end:]
    return text


def word_of(text: str, span: Span) -> Word:
    """A word that stands nowhere by itself, such as what an image runs when no command is given."""
    return Word(Piece(text, (span.start,) * len(text)), span)


def texts(words: Sequence[Word]) -> list[str]:
    """The words as a program would be given them."""
    return [word.text for word in words]
