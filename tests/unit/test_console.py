"""What is printed fits the stream that it goes to."""

from __future__ import annotations

import dataclasses
import io
import json
import sys

import pytest

from compiler import console
from compiler.diagnostics import Diagnostic, Place, Position, Severity

FOUND = [Diagnostic("X001", severity, f"{severity} é", "why", "fix", Place("a.yaml")) for severity in Severity]


class Nowhere:
    """A locator that knows no file."""

    def locate(self, place: Place, *, on_key: bool = False) -> Position | None:
        return None

    def display(self, path: str) -> str:
        return path


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_findings_go_to_stderr_and_hidden_ones_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_findings(FOUND, Nowhere())
    out, err = capsys.readouterr()
    assert out == ""
    assert ("error é" in err, "warning é" in err, "info é" in err, "1 more of lower severity" in err) == (True, True, False, True)
    console.print_findings(FOUND, Nowhere(), least=Severity.INFO)
    assert "more of lower" not in capsys.readouterr().err


def test_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted, value in ((True, None), (False, "1")):
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.delenv("NO_COLOR", raising=False)
        if value:
            monkeypatch.setenv("NO_COLOR", value)
        console.print_findings(FOUND[:1], Nowhere())
        assert ("\033[1;31m" in stream.getvalue()) is wanted


@pytest.mark.parametrize(("encoding", "raw"), [("utf-8", True), ("ascii", False), ("latin-1", False)])
def test_json_suits_the_encoding_and_reads_back(monkeypatch: pytest.MonkeyPatch, encoding: str, raw: bool) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding=encoding))
    value = {"a": "é日本\U0001f600", "b": [1, None, True, 0.5]}
    console.print_json(value)
    sys.stdout.flush()
    assert json.loads(buffer.getvalue().decode(encoding)) == value
    assert ("日本" in buffer.getvalue().decode(encoding)) is raw
    assert console.unicode_output() is raw


def test_tolerant_streams_never_end_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    console.tolerant_streams()
    print("│ é \udc80")
    sys.stdout.flush()
    assert buffer.getvalue() == b"\\u2502 \\xe9 \\udc80\n"


def test_counted() -> None:
    assert console.counted([]) == "no findings"
    assert console.counted([*FOUND, FOUND[1]]) == "1 error, 2 warnings, 1 info"
    assert console.counted([dataclasses.replace(FOUND[0], code="Y")]) == "1 error"


def test_table() -> None:
    assert console.table([("a", "bb"), ("ccc", "")], ("H", "I")) == "H    I\na    bb\nccc"
