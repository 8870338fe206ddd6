"""Docker Compose's variables: `$X`, `${X}`, `${X:-y}`, `${X:?why}` filled in from what `.env` says, and env files themselves.

What the shell that runs Compose would add nobody knows here: a variable that neither a file nor a default gives stays in the text, and
is named.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from compiler.foreign.source import Piece, Span, Word, word_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOW = re.compile(r":?[-+?]")
_ENTRY = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)[ \t]*
        (?:[=:][ \t]*(?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<plain>[^\n]*)))?[^\n]*""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
MAX_DEPTH = 16  # Of defaults within defaults: no file that people write comes near it.


@dataclasses.dataclass(slots=True)
class _Filling:
    """Text that grows, with the place of each of its characters, and what was missing."""

    values: Mapping[str, str]
    chars: list[str] = dataclasses.field(default_factory=list)
    offsets: list[int] = dataclasses.field(default_factory=list)
    unknown: list[str] = dataclasses.field(default_factory=list)
    required: dict[str, str] = dataclasses.field(default_factory=dict)

    def put(self, text: str, at: int) -> None:
        """Text that all comes from one place."""
        self.chars += text
        self.offsets += (at,) * len(text)

    def fill(self, piece: Piece, depth: int = 0) -> None:
        """A piece with its variables."""
        at = 0
        while at < len(piece.text):
            if piece.text[at] == "$" and at + 1 < len(piece.text):
                at = self._variable(piece, at, depth)
                continue
            self.put(piece.text[at], piece.offsets[at])
            at += 1

    def _variable(self, piece: Piece, at: int, depth: int) -> int:
        """Fills in the variable that begins at `at`; gives where the text goes on."""
        text, place = piece.text, piece.offsets[at]
        if text[at + 1] == "$":
            self.put("$", place)
            return at + 2
        if match := _NAME.match(text, at + 1):
            self._value(match[0], place)
            return match.end()
        end = _closing(text, at + 1) if text[at + 1] == "{" else None
        match = _NAME.match(text, at + 2) if end is not None else None
        how = _HOW.match(text, match.end()) if match else None
        if end is None or match is None or depth > MAX_DEPTH or (how is None and match.end() != end):
            self.put("$", place)
            return at + 1
        self._braced(match[0], how[0] if how else "", piece.cut(how.end() if how else end, end), place, depth)
        return end + 1

    def _braced(self, name: str, how: str, other: Piece, place: int, depth: int) -> None:
        value = self.values.get(name)
        has_value = value is not None and (bool(value) or not how.startswith(":"))
        if how.endswith("-") and not has_value:
            self.fill(other, depth + 1)
        elif how.endswith("+") and value is not None:
            self.fill(other if has_value else other.cut(0, 0), depth + 1)
        else:
            if how.endswith("?") and not has_value:
                self.required[name] = other.text
            self._value(name, place)

    def _value(self, name: str, place: int) -> None:
        if name not in self.values:
            self.unknown.append(name)
        self.put(self.values.get(name, f"${{{name}}}"), place)


@dataclasses.dataclass(frozen=True, slots=True)
class Filled:
    """A word with its variables filled in. `required` are those without which Compose refuses, with what the file says about them."""

    word: Word
    required: Mapping[str, str]


def filled(piece: Piece, span: Span, values: Mapping[str, str]) -> Filled:
    """A piece with `$$`, `$X` and `${X:-y}` read as Compose reads them; a variable without a value stays and is named."""
    filling = _Filling(values)
    filling.fill(piece)
    word = Word(Piece("".join(filling.chars), tuple(filling.offsets)), span, tuple(dict.fromkeys(filling.unknown)))
    return Filled(word, filling.required)


def env_file_values(text: str, values: Mapping[str, str], span: Span) -> dict[str, Word]:
    """Variables of an env file, in the order of its lines; each stands at `span`, where the file is named. `values` are known before it."""
    found: dict[str, Word] = {}
    at = 0
    while at < len(text):
        match = _ENTRY.match(text, at)
        if match is not None:
            known = {**values, **{name: word.text for name, word in found.items() if not word.unknown}}
            found[match["name"]] = _entry(match, known, span)
        end = text.find("\n", match.end() if match is not None else at)
        at = len(text) if end < 0 else end + 1
    return found


def plain_env_file_values(text: str, span: Span) -> dict[str, Word]:
    """Variables of an env file as `docker run` reads it: NAME=value with the value as it stands; a name alone comes from its caller."""
    found: dict[str, Word] = {}
    for line in text.splitlines():
        name, equals, value = line.lstrip().partition("=")
        if _NAME.fullmatch(name):
            found[name] = word_of(value, span) if equals else dataclasses.replace(word_of("", span), unknown=(name,))
    return found


def _entry(match: re.Match[str], values: Mapping[str, str], span: Span) -> Word:
    if match["single"] is not None:
        return word_of(match["single"], span)
    if match["double"] is not None:
        text = re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), match["double"])
    elif match["plain"] is not None:
        text = re.sub(r"(^|\s)#.*", "", match["plain"]).strip()
    elif match["name"] in values:
        return word_of(values[match["name"]], span)
    else:
        return dataclasses.replace(word_of("", span), unknown=(match["name"],))
    return filled(word_of(text, span).piece, span, values).word


def _closing(text: str, start: int) -> int | None:
    """Offset of the bracket that closes the one at `start`; None where none does."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        elif text[at] == "{" and (at == start or text[at - 1] == "$"):
            depth += 1
    return None
