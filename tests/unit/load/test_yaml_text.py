"""Strict YAML: what another tool would read differently is refused, each at its line and column; the rest is plain data."""

from __future__ import annotations

import time

import pytest

from compiler.diagnostics import Diagnostic
from compiler.load.yaml_text import MAX_DEPTH, Document, parsed, shown


def found(text: str) -> list[tuple[str, int, int]]:
    return [(d.code, d.position.line, d.position.column) for d in parsed("x.yaml", text)[1] if d.position]


def data(text: str) -> object:
    document, problems = parsed("x.yaml", text)
    assert problems == []
    return document.data


@pytest.mark.parametrize(("text", "code", "line", "column"), [
    ("a:\n\tb: 1\n", "SPC001", 2, 1),
    ("a:\n  \tb: 1\n", "SPC001", 2, 3),
    ("a: 1\nb: 2\na: 3\n", "SPC004", 3, 1),
    ("a: {b: 1, b: 2}\n", "SPC004", 1, 11),
    ("a: &x 1\n", "SPC007", 1, 4),
    ("a: {b: *x}\n", "SPC007", 1, 8),
    ("a: &x {b: 1}\nc:\n  <<: *x\n", "SPC007", 1, 4),
    ("a:\n  <<: {b: 1}\n", "SPC007", 2, 3),
    ("&a a: 1\n", "SPC007", 1, 1),
    ("a: !!python/object/apply:os.system [id]\n", "SPC005", 1, 4),
    ("a: !tag {b: 1}\n", "SPC005", 1, 4),
    ("!!int a: 1\n", "SPC005", 1, 1),
    ("a: !!str 1\n", "SPC005", 1, 4),
    ("- !x\n", "SPC005", 1, 3),
    ("%YAML 1.1\n---\na: 1\n", "SPC005", 1, 1),
    ("? [a]\n: b\n", "SPC003", 1, 3),
    ("{a: 1}: 2\n", "SPC003", 1, 1),
    ("a: [1, 2\n", "SPC001", 2, 1),
    ("a: b: c\n", "SPC001", 1, 5),
    ("a: 'x\n", "SPC001", 2, 1),
    ("a: 1\n---\nb: 2\n", "SPC001", 2, 1),
    ("a: \x1b[0m\n", "SPC001", 1, 4),
    ("a: 1\nb: x\x00y\n", "SPC001", 2, 5),
    ("", "SPC002", 1, 1),
    ("# only a comment\n", "SPC002", 1, 1),
])  # fmt: skip
def test_refused_at_its_place(text: str, code: str, line: int, column: int) -> None:
    assert found(text)[0] == (code, line, column)


@pytest.mark.parametrize("word", [
    "no", "yes", "on", "off", "No", "YES", "On", "y", "N", "True", "FALSE", "~", "Null", "NULL", "1e6", "1E6", "1.5e3", "010", "0o17", "0x1f", "0b11", "1_000",
    "1_0.5", "1:30", "190:20:30", ".5", "5.", ".inf", "-.inf", ".nan", "2026-08-23", "2026-08-23 10:00:00", "1234567890123456789", "=",
])  # fmt: skip
@pytest.mark.parametrize("form", ["a: {}\n", "a: [{}]\n", "a:\n  - {}\n", "{{a: {}}}\n"])
def test_words_that_two_yaml_readers_read_differently_are_refused(word: str, form: str) -> None:
    text = form.format(word)
    assert found(text) == [("SPC006", text.count("\n", 0, text.index(word, 2)) + 1, text.index(word, 2) - text.rfind("\n", 0, text.index(word, 2)))]


@pytest.mark.parametrize("word", ["no", "1e6", "~", "2026-08-23", "0x1f", "=", "1:30"])
def test_quoted_they_are_text(word: str) -> None:
    assert data(f'a: "{word}"\nb: \'{word}\'\nc: |-\n  {word}\n') == {"a": word, "b": word, "c": word}


def test_plain_values() -> None:
    assert data("a: 1\nb: -2\nc: 1.50\nd: true\ne: false\nf: null\ng:\nh: 0\ni: word\nj: [1, x]\nk: {l: 256Ki}\n1: one\nyes: two\n") == {
        "a": 1, "b": -2, "c": 1.5, "d": True, "e": False, "f": None, "g": None, "h": 0, "i": "word", "j": (1, "x"), "k": {"l": "256Ki"}, "1": "one", "yes": "two",
    }  # fmt: skip


def test_ampersands_stars_and_exclamation_marks_inside_text_are_text() -> None:
    assert data("a: fish & chips * 2 = hello!\nb: '& *x !y'\nc: |\n  &x *y !z\n") == {"a": "fish & chips * 2 = hello!", "b": "& *x !y", "c": "&x *y !z\n"}


def test_all_surprises_are_reported_at_once() -> None:
    assert [code for code, _, _ in found("a: no\nb: 1e6\nc: {d: 010, d: 2}\n")] == ["SPC006", "SPC006", "SPC006", "SPC004"]


@pytest.mark.parametrize("text", ["[" * 10_000, "{a: " * 10_000, "[" * 10_000 + "]" * 10_000, "- " * 10_000 + "x", "? " * 10_000, "\n".join(" " * i + "a:" for i in range(1_400))])
def test_ten_thousand_levels_are_refused_quickly(text: str) -> None:
    start = time.process_time()
    problems = parsed("x.yaml", text)[1]
    assert problems[0].code in ("SPC008", "SPC001")
    assert time.process_time() - start < 5


def test_depth_limit_is_exact() -> None:
    assert found("[" * MAX_DEPTH + "]" * MAX_DEPTH) == []
    assert found("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))[0][0] == "SPC008"


@pytest.mark.parametrize("line_break", ["\n", "\r", "\x85", "\u2028", "\u2029"])
def test_lines_are_counted_as_yaml_counts_them(line_break: str) -> None:
    document, problems = parsed("x.yaml", line_break.join(["a: 1", "b:", "  c: no", ""]))
    assert [(d.code, d.position.line, d.position.column, d.position.text) for d in problems if d.position] == [("SPC006", 3, 6, "  c: no")]
    assert document.lines[2] == "  c: no"


def test_columns_count_characters_not_bytes() -> None:
    assert found("é: {日本: no}\n") == [("SPC006", 1, 9)]


def test_positions_of_keys_values_and_missing_routes() -> None:
    document: Document = parsed("x.yaml", "a:\n  b: [1, {c: deep}]\n")[0]
    value, key = document.position(("a", "b", 1, "c")), document.position(("a", "b", 1, "c"), on_key=True)
    assert (value.line, value.column, value.length, key.column, key.length) == (2, 14, 4, 11, 1)
    nearest = document.position(("a", "b", 1, "nothing", "at", "all"))
    assert (nearest.line, nearest.column) == (2, 10)
    assert parsed("x.yaml", "")[0].position(("a",)).line == 1


def test_shown_escapes_and_cuts() -> None:
    assert shown("a\x1b\u202eb") == "a\\x1b\\u202eb"
    assert shown("x" * 100_000) == "x" * 59 + "…"
    assert shown("x" * 60) == "x" * 60


def test_syntax_error_says_what_was_expected() -> None:
    problem: Diagnostic = parsed("x.yaml", "a: 1\n--- b\n")[1][0]
    assert "single document" in problem.what
