"""Shell text to commands of words, each with its place. Nothing is run, and no file is looked at.

Understood: quotes, escapes, continued lines, comments, `;` `&&` `||` `|` `&`, redirections, here-documents, assignments,
`export`, arrays, `$X`, `${X}`, `${X:-y}`, `${X[@]}`. What only a running shell knows (`$(...)`, unset variables) is marked
in the word as unknown, by name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from compiler.diagnostics import Diagnostic, Severity
from compiler.foreign.source import Piece, Source, Span, Word

Command = list[Word]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.DOTALL)
_BRACED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[@*]\])?(?:(:?[-=+?])(.*))?$", re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)([A-Za-z_][A-Za-z0-9_]*)\1")
_KEYWORDS = frozenset({"if", "then", "else", "elif", "do", "while", "until", "{", "}", "!", "time", "exec"})
_EXPORTING = frozenset({"export", "declare", "typeset", "readonly", "local"})
_IN_QUOTES = '$`"\\\n'
MAX_EXPANDED = 1 << 20  # Characters that variables may add in all: variables of variables make a small script endless.
MAX_DEPTH = 16  # Of defaults within defaults, and of arrays within arrays: no script that people write comes near it.


@dataclasses.dataclass(slots=True)
class Scope:
    """Variables as the text assigns them, in order; `exported` are those that a program would see; `room` is left for what they add."""

    variables: dict[str, list[Word]] = dataclasses.field(default_factory=dict)
    exported: dict[str, Word] = dataclasses.field(default_factory=dict)
    room: int = MAX_EXPANDED


class Shell:
    """Reads one piece of shell text. `commands()` gives its commands; `problems` and `scope` say the rest."""

    def __init__(self, source: Source, piece: Piece, scope: Scope | None = None, depth: int = 0) -> None:
        self.source, self.piece, self.text = source, piece, piece.text
        self.scope = scope if scope is not None else Scope()
        self.depth = depth
        self.problems: list[Diagnostic] = []
        self.done: list[Command] = []
        self.words: list[Word] = []
        self.chars: list[str] = []
        self.places: list[int] = []
        self.unknown: list[str] = []
        self.begun: int | None = None
        self.at = 0
        self.drops_next = False
        self.heredocs: list[str] = []

    def commands(self) -> list[Command]:
        """All commands of the text, in order, without what a shell would keep for itself."""
        steps: dict[str, Callable[[], None]] = {
            "\\": self._escape, "'": self._single, '"': self._double, "$": lambda: self._dollar(False), "`": self._backtick, "#": self._hash,
            "\n": self._newline, ";": self._end_command, "&": self._ampersand, "|": self._end_command, "(": self._open, ")": self._end_command,
            "<": self._redirect, ">": self._redirect,
        }  # fmt: skip
        while self.at < len(self.text):
            c = self.text[self.at]
            if c in steps:
                steps[c]()
            elif c in " \t\r":
                self._end_word()
                self.at += 1
            else:
                self._put(c, self.at)
                self.at += 1
        self._end_command()
        return self.done

    def _put(self, c: str, at: int) -> None:
        self.begun = self.at if self.begun is None else self.begun
        self.chars.append(c)
        self.places.append(self.piece.offsets[min(at, len(self.piece.offsets) - 1)])

    def _span(self, start: int, end: int) -> Span:
        offsets = self.piece.offsets[start : max(end, start + 1)] or self.piece.offsets[-1:]
        return Span(min(offsets), max(offsets) + 1) if offsets else Span(0, 0)

    def _end_word(self) -> None:
        if self.begun is None:
            return
        span = self._span(self.begun, self.at)
        if self.places and not any(span.start <= place < span.end for place in self.places):
            span = Span(
                min(self.places), max(self.places) + 1
            )  # All of it comes from a variable: where that was set is where it is changed.
        word = Word(Piece("".join(self.chars), tuple(self.places)), span, tuple(dict.fromkeys(self.unknown)))
        if not self.drops_next:
            self.words.append(word)
        self.chars, self.places, self.unknown, self.begun, self.drops_next = [], [], [], None, False

    def _end_command(self) -> None:
        self._end_word()
        self.drops_next = False
        self.at += 1
        command = self.words
        self.words = []
        while command and command[0].text in _KEYWORDS:
            command = command[1:]
        if command and not self._assigned(command):
            self.done.append(command)

    def _assigned(self, command: Command) -> bool:
        """Keeps what a command of nothing but assignments sets; False for any other command."""
        exports = command[0].text in _EXPORTING
        rest = [w for w in command[1:] if not w.text.startswith("-")] if exports else command
        found = [(_ASSIGNED.match(w.text), w) for w in rest]
        if not exports and not all(m for m, _ in found):
            return False
        for match, word in found:
            if match is not None:
                value = word.cut(match.end())
                self.scope.variables[match[1]] = [*(self.scope.variables.get(match[1], []) if match[2] else []), value]
            if exports and command[0].text == "export":
                name = match[1] if match else word.text
                if name in self.scope.variables:
                    self.scope.exported[name] = self.scope.variables[name][-1]
        return True

    def _escape(self) -> None:
        following = self.text[self.at + 1 : self.at + 3]
        if following[:1] == "\n" or following == "\r\n":
            self.at += 1 + (2 if following == "\r\n" else 1)
            return
        if following:
            self._put(following[0], self.at + 1)
        self.at += 2

    def _single(self) -> None:
        self.begun = self.at if self.begun is None else self.begun
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self._unbalanced("'")
            return
        for i in range(self.at + 1, end):
            self._put(self.text[i], i)
        self.at = end + 1

    def _double(self) -> None:
        self.begun = self.at if self.begun is None else self.begun
        opened = self.at
        self.at += 1
        while self.at < len(self.text) and self.text[self.at] != '"':
            c = self.text[self.at]
            if c == "\\" and self.text[self.at + 1 : self.at + 2] in tuple(_IN_QUOTES):
                if self.text[self.at + 1] != "\n":
                    self._put(self.text[self.at + 1], self.at + 1)
                self.at += 2
            elif c == "$":
                self._dollar(True)
            elif c == "`":
                self._backtick()
            else:
                self._put(c, self.at)
                self.at += 1
        if self.at >= len(self.text):
            self.at = opened
            self._unbalanced('"')
            return
        self.at += 1

    def _unbalanced(self, quote: str) -> None:
        why = "A shell waits for the rest, or takes the next lines for part of this word."
        span = self._span(self.at, self.at + 1)
        self.problems.append(
            self.source.finding(
                "CMD002",
                Severity.ERROR,
                f"the quote {quote} is never closed",
                why,
                "Close it, or escape it where the character itself is meant.",
                span,
            )
        )
        self.chars, self.places, self.begun = [], [], None
        self.at = len(self.text)

    def _backtick(self) -> None:
        end = self.text.find("`", self.at + 1)
        self._unknown("`...`", end + 1 if end >= 0 else len(self.text))

    def _unknown(self, name: str, end: int) -> None:
        shown = self.text[self.at : end]
        self.unknown.append(name)
        for c in shown:
            self._put(c, self.at)
        self.at = end

    def _hash(self) -> None:
        if self.begun is not None:
            self._put("#", self.at)
            self.at += 1
            return
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _newline(self) -> None:
        self._end_command()
        for word in self.heredocs:
            end = re.compile(rf"^\t*{re.escape(word)}\r?$", re.MULTILINE).search(self.text, self.at)
            self.at = min(len(self.text), end.end() + 1) if end else len(self.text)
        self.heredocs = []

    def _ampersand(self) -> None:
        if self.text[self.at + 1 : self.at + 2] == ">":  # &> redirects both streams.
            self._end_word()
            self.at += 1
            return
        self._end_command()

    def _open(self) -> None:
        match = _ASSIGNED.fullmatch("".join(self.chars))
        if match is None:
            self._end_command()
            return
        end = _closing(self.text, self.at, "(", ")")
        inner = Shell(self.source, self.piece.cut(self.at + 1, end), self.scope, self.depth + 1)
        found = [] if self.depth > MAX_DEPTH else [word for command in inner.commands() for word in command]
        self.problems += inner.problems
        self.scope.variables[match[1]] = [*(self.scope.variables.get(match[1], []) if match[2] else []), *found]
        self.chars, self.places, self.begun = [], [], None
        self.at = end + 1

    def _redirect(self) -> None:
        here = _HEREDOC.match(self.text, self.at)
        if here and self.text[self.at : self.at + 3] != "<<<":
            self._end_word()
            self.heredocs.append(here[2])
            self.at = here.end()
            return
        if "".join(self.chars).isdigit():  # The number of a stream, as in 2>&1.
            self.chars, self.places, self.begun = [], [], None
        self._end_word()
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        self.drops_next = True

    def _dollar(self, quoted: bool) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            self._unknown("$(...)", _closing(self.text, self.at + 1, "(", ")") + 1)
        elif following == "{":
            end = _closing(self.text, self.at + 1, "{", "}")
            match = _BRACED.match(self.text[self.at + 2 : end])
            if match is None:
                self._unknown(self.text[self.at : end + 1], end + 1)
            else:
                self._expand(match[1], quoted, end + 1, default=self._default(match, end), each=match[2] is not None)
        elif name := _NAME.match(self.text, self.at + 1):
            self._expand(name[0], quoted, name.end(), default=None, each=False)
        elif following and following in "@*#?$!0123456789-":
            self._unknown("$" + following, self.at + 2)
        else:
            self._put("$", self.at)
            self.at += 1

    def _default(self, match: re.Match[str], end: int) -> list[Word] | None:
        """The words of `y` in `${X:-y}`; none where there is no default."""
        if match[3] is None or match[3].strip(":") not in ("-", "=") or self.depth > MAX_DEPTH:
            return None
        start = self.at + 2 + match.start(4)
        inner = Shell(self.source, self.piece.cut(start, end), self.scope, self.depth + 1)
        return [word for command in inner.commands() for word in command]

    def _expand(self, name: str, quoted: bool, end: int, *, default: list[Word] | None, each: bool) -> None:
        values = self.scope.variables.get(name)
        if values is None or (default is not None and not each and all(not w.text for w in values)):
            values = default
        self.scope.room -= sum(len(word.text) + 1 for word in values or [])
        if values is None or self.scope.room < 0:
            self._unknown(name, end)
            return
        self.begun = self.at if self.begun is None and (quoted or values) else self.begun
        for number, word in enumerate(values):
            if number:
                self._end_word() if each or not quoted else self._put(" ", self.at)
                self.begun = self.at
            self.unknown += word.unknown
            for c, at in zip(word.text, word.piece.offsets, strict=True):
                if c.isspace() and not quoted and not each:
                    self._end_word()
                    continue
                self.begun = self.at if self.begun is None else self.begun
                self.chars.append(c)
                self.places.append(at)
        self.at = end


def _closing(text: str, start: int, opening: str, closing: str) -> int:
    """Offset of the bracket that closes the one at `start`, quotes aside; the text's end where none does."""
    depth, quote, i = 0, "", start
    while i < len(text):
        c = text[i]
        if c == "\\" and quote != "'":
            i += 2
            continue
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == opening:
            depth += 1
        elif c == closing:
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return len(text)
