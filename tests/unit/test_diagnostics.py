"""Findings print as file:line:col with a caret under the right column, and nothing in them steers a terminal."""

from __future__ import annotations

import dataclasses

import pytest

from compiler.diagnostics import Diagnostic, Place, Position, Severity, dotted, formatted, located, printable, stops

ERROR = Diagnostic("SPC013", Severity.ERROR, "what", "why", "fix", Place("a.yaml", ("deploy", "ports", 0)))


def at(line: int, column: int, length: int, text: str) -> Diagnostic:
    return dataclasses.replace(ERROR, position=Position(line, column, length, text))


class Known:
    """A locator that knows two files."""

    def locate(self, place: Place, *, on_key: bool = False) -> Position | None:
        return {"b.yaml": Position(2, 3), "a.yaml": Position(9, 1)}.get(place.path)

    def display(self, path: str) -> str:
        return f"specs/{path}"


def test_formatted_has_place_source_caret_why_and_fix() -> None:
    assert formatted(at(3, 8, 4, "price: oops")).splitlines() == [
        "a.yaml:3:8: SPC013 error: what", "    3 | price: oops", "      |        ^~~~", "  why: why", "  fix: fix",
    ]  # fmt: skip


def test_without_a_position_only_the_file_is_named() -> None:
    assert formatted(ERROR).splitlines() == ["a.yaml: SPC013 error: what", "  why: why", "  fix: fix"]


@pytest.mark.parametrize(("text", "column", "under"), [
    ("a: x", 4, 3),  # plain
    ("a: 日本 x", 7, 8),  # wide characters take two columns
    ("a: e\u0301 x", 7, 5),  # combining ones take none
    ("a:\tx", 4, 3),  # a tab is shown as one space
])  # fmt: skip
def test_caret_stands_under_its_column(text: str, column: int, under: int) -> None:
    source, caret = formatted(at(1, column, 1, text)).splitlines()[1:3]
    assert "\t" not in source
    assert caret == "      | " + " " * under + "^"


def test_long_line_is_cut_around_the_place() -> None:
    source, caret = formatted(at(1, 50_001, 3, "x" * 50_000 + "BAD" + "y" * 50_000)).splitlines()[1:3]
    assert len(source) < 200
    assert source[caret.index("^") : caret.index("^") + 3] == "BAD"


def test_caret_beyond_the_line_is_still_shown() -> None:
    assert formatted(at(1, 9, 1, "abc")).splitlines()[2] == "      | " + " " * 3 + "^"


@pytest.mark.parametrize("bad", ["\x1b[31m", "\u202e", "\x9b2J", "\r", "\x07", "\u200b", "\ud800"])
def test_control_characters_and_direction_marks_are_escaped(bad: str) -> None:
    text = formatted(dataclasses.replace(at(1, 1, 1, f"a{bad}b"), what=f"w{bad}", why=f"y{bad}", fix=f"f{bad}"))
    assert bad not in text
    assert "\n".join(printable(line) for line in text.splitlines()) == text


def test_caret_counts_escapes() -> None:
    source, caret = formatted(at(1, 3, 1, "a\x1bb")).splitlines()[1:3]
    assert source[caret.index("^")] == "b"


def test_dotted() -> None:
    assert dotted(("deploy", "ports", 0, "x")) == "deploy.ports[0].x"
    assert dotted(()) == ""


def test_located_sorts_and_shows_the_users_path() -> None:
    second = dataclasses.replace(ERROR, place=Place("b.yaml"), severity=Severity.INFO)
    unknown = dataclasses.replace(ERROR, place=Place("c.yaml"))
    placed = located([second, ERROR, unknown], Known())
    assert [(d.place.path, d.position and d.position.line) for d in placed] == [("specs/a.yaml", 9), ("specs/b.yaml", 2), ("specs/c.yaml", None)]


def test_json_is_flat_and_complete() -> None:
    assert at(3, 8, 4, "x").to_json() == {
        "file": "a.yaml", "route": "deploy.ports[0]", "line": 3, "column": 8, "code": "SPC013", "severity": "error", "what": "what", "why": "why", "fix": "fix",
    }  # fmt: skip
    assert ERROR.to_json()["line"] is None


def test_stops() -> None:
    warning = dataclasses.replace(ERROR, severity=Severity.WARNING)
    info = dataclasses.replace(ERROR, severity=Severity.INFO)
    assert stops([warning, ERROR])
    assert not stops([warning, info])
    assert stops([warning], strict=True)
    assert not stops([info], strict=True)




def test_place_prints_its_route() -> None:
    assert str(ERROR.place) == "a.yaml#deploy.ports[0]"
    assert str(Place("a.yaml")) == "a.yaml"
