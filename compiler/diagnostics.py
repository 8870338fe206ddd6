"""Everything that can be wrong is one `Diagnostic`: where, code, severity, what, why, fix.

A finding's place is a `Route`, the chain of keys and indexes inside one spec file. Only printing turns it into a
line and a column (see `compiler.load.SourceMap`), so rules never handle positions.
"""

from __future__ import annotations

import dataclasses
import enum
import unicodedata
from collections.abc import Iterable
from typing import Literal, Protocol, TypeAlias

Route: TypeAlias = tuple[str | int, ...]


class Severity(enum.StrEnum):
    """How bad a finding is. An `error` stops the build; a `warning` and an `info` are printed and kept."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for the worst: the order in which findings are printed."""
        return list(Severity).index(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A spot in a spec: the file as shown to the user, and the route of keys inside it."""

    path: str
    route: Route = ()

    def __str__(self) -> str:
        return f"{self.path}#{dotted(self.route)}" if self.route else self.path


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """A place in text as an editor counts it: line and column from 1, and how many characters to underline."""

    line: int
    column: int
    length: int = 1
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """A change to a spec that needs no judgement: `set` the value at a place, `remove` what stands there, or `rename` its key to `value`."""

    action: Literal["set", "remove", "rename"]
    place: Place
    value: str | int | float | bool | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, said so that its reader can act: what, why it hurts, what to do.

    `edit` is there where a single change takes the finding away, whoever makes it.
    """

    code: str
    severity: Severity
    what: str
    why: str
    fix: str
    place: Place
    position: Position | None = None
    on_key: bool = False
    edit: Edit | None = None

    @property
    def is_error(self) -> bool:
        """True when the build must stop."""
        return self.severity is Severity.ERROR

    def to_json(self) -> dict[str, object]:
        """A flat mapping with `file`, `line`, `column` (null where unknown), `code`, `severity`, `what`, `why`, `fix`."""
        line = self.position.line if self.position else None
        column = self.position.column if self.position else None
        return {
            "file": self.place.path, "route": dotted(self.place.route), "line": line, "column": column, "code": self.code,
            "severity": str(self.severity), "what": brief(self.what), "why": brief(self.why), "fix": brief(self.fix),
        }  # fmt: skip


class Locator(Protocol):
    """Turns a place into a position in the text that the user wrote."""

    def locate(self, place: Place, *, on_key: bool = False) -> Position | None:
        """The position of `place`, or of its nearest ancestor that exists in the text; None for an unknown file."""
        ...

    def display(self, path: str) -> str:
        """The path of a spec as the user can open it."""
        ...


def stops(diagnostics: Iterable[Diagnostic], strict: bool = False) -> bool:
    """True when a build must stop: an error, or with `strict` also a warning."""
    worst = Severity.WARNING if strict else Severity.ERROR
    return any(d.severity.rank <= worst.rank for d in diagnostics)


def dotted(route: Route) -> str:
    """`("deploy", "ports", 0)` as `deploy.ports[0]`."""
    text = ""
    for part in route:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def located(diagnostics: Iterable[Diagnostic], locator: Locator) -> list[Diagnostic]:
    """The same diagnostics with positions, in printing order: file, line, column, severity, code."""
    placed = []
    for d in diagnostics:
        position = d.position or locator.locate(d.place, on_key=d.on_key)
        placed.append(dataclasses.replace(d, position=position, place=Place(locator.display(d.place.path), d.place.route)))
    return sorted(placed, key=_print_order)


def _print_order(d: Diagnostic) -> tuple[str, int, int, int, str, str]:
    line, column = (d.position.line, d.position.column) if d.position else (0, 0)
    return (d.place.path, line, column, d.severity.rank, d.code, d.what)


def formatted(d: Diagnostic) -> str:
    """One diagnostic as text: `file:line:col: CODE severity: what`, the source line with a caret, why, fix."""
    where = d.place.path
    if d.position:
        where += f":{d.position.line}:{d.position.column}"
    lines = [printable(f"{where}: {d.code} {d.severity}: {brief(d.what)}")]
    if d.position and d.position.text.strip():
        lines += _caret_lines(d.position)
    lines += [printable(f"  why: {brief(d.why)}"), printable(f"  fix: {brief(d.fix)}")]
    return "\n".join(lines)


def brief(text: str, limit: int = 1000) -> str:
    """`text` cut to what somebody reads: a spec may hold a hundred thousand characters where a word belongs."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """`text` on one line with control characters and direction marks escaped: what a spec holds must not steer a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _caret_lines(position: Position, width: int = 160) -> list[str]:
    """The source line and a caret under it; a long line is cut around the place."""
    start = max(0, position.column - 1 - width // 2) if len(position.text) > width else 0
    shown = position.text[start : start + width]
    offset = max(0, position.column - 1 - start)
    before, marked = printable(shown[:offset].replace("\t", " ")), printable(shown[offset : offset + position.length])
    gutter = f"{position.line:>5} | "
    underline = "^" + "~" * (_columns(marked) - 1)
    return [gutter + before + printable(shown[offset:]), " " * (len(gutter) - 2) + "| " + " " * _columns(before) + underline]


def _columns(text: str) -> int:
    """Columns that a terminal gives to printable text: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
