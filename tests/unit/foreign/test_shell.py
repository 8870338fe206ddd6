"""Shell text to words: what is understood, what is marked unknown, and where each word stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.foreign.shell import Shell
from compiler.foreign.source import Source, hidden, texts


def _shell(text: str) -> Shell:
    source = Source("f", text)
    return Shell(source, source.whole())


def _commands(text: str) -> list[list[str]]:
    return [texts(command) for command in _shell(text).commands()]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a \\\n  b \\\r\n c", [["a", "b", "c"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ("a; b && c | d & e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a > log 2>&1 b < in", [["a", "b"]]),
        ("a &> log", [["a"]]),
        ("# all 'of it\na b#c # d", [["a", "b#c"]]),
        ('a \'{"x": "$Y"}\'', [["a", '{"x": "$Y"}']]),
        ('a "{\\"x\\": 1}"', [["a", '{"x": 1}']]),
        ("X=1\na $X ${X} \"$X\" '$X'", [["a", "1", "1", "1", "$X"]]),
        ("a ${X:-b c} \"${X:-b c}\" ${X-d}", [["a", "b", "c", "b c", "d"]]),
        ("X='b c'; a $X \"$X\"", [["a", "b", "c", "b c"]]),
        ('X=(--b "c d")\nX+=(e)\na "${X[@]}"', [["a", "--b", "c d", "e"]]),
        ("cat <<'EOF'\nvllm serve x\nEOF\na", [["cat"], ["a"]]),
        ("if a; then b; fi", [["a"], ["b"], ["fi"]]),
        ("a $ b", [["a", "$", "b"]]),
    ],
)
def test_commands(text: str, commands: list[list[str]]) -> None:
    assert _commands(text) == commands


@pytest.mark.parametrize(("text", "unknown"), [("a $X", ("X",)), ("a ${X}", ("X",)), ("a \"$X$Y\"", ("X", "Y")), ("a $(b 'c')", ("$(...)",)), ("a `b`", ("`...`",)), ("a ${X:?no}", ("X",)), ("a $1", ("$1",))])
def test_what_only_a_running_shell_knows_is_named(text: str, unknown: tuple[str, ...]) -> None:
    (command,) = _shell(text).commands()
    assert command[1].unknown == unknown


@pytest.mark.parametrize(("text", "column"), [("a 'b", 3), ('a "b', 3), ("X=('b", 4)])
def test_a_quote_that_is_never_closed(text: str, column: int) -> None:
    shell = _shell(text)
    shell.commands()
    (problem,) = shell.problems
    assert problem.code == "CMD002"
    assert problem.position is not None
    assert (problem.position.line, problem.position.column) == (1, column)


def test_a_word_from_a_variable_stands_where_it_was_set() -> None:
    shell = _shell("X=--flag\n\na $X b")
    (command,) = shell.commands()
    lines = [shell.source.position(word.span).line for word in command]
    assert lines == [3, 1, 3]


def test_variables_of_variables_end() -> None:
    shell = _shell("X=1; " + "A=$X$X$X$X; X=$A$A$A$A; " * 40 + "x $X")
    (command,) = shell.commands()
    assert command[1].unknown
    assert len(command[1].text) < 1 << 21


def test_exported_variables_are_kept() -> None:
    shell = _shell("export A=1\nB=2\nexport B\nC=3\nx")
    shell.commands()
    assert {name: word.text for name, word in shell.scope.exported.items()} == {"A": "1", "B": "2"}


def test_a_position_never_shows_a_secret() -> None:
    token = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"
    source = Source("f", f"a --token {token} b")
    (command,) = Shell(source, source.whole()).commands()
    position = source.position(command[3].span)
    assert position.text == f"a --token {'•' * len(token)} b"
    assert position.text[position.column - 1 :] == "b"
    assert len(hidden(source.text)) == len(source.text)


@given(st.text(st.sampled_from("ab '\"\\$`{}()[]@<>&|;#=:-+?!\n\t\rX1"), max_size=60))
def test_any_text_is_read_and_each_word_has_a_place(text: str) -> None:
    shell = _shell(text)
    for command in shell.commands():
        for word in command:
            assert len(word.piece.text) == len(word.piece.offsets)
            assert 0 <= word.span.start < word.span.end <= len(text)
            shell.source.position(word.span)
