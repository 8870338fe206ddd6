"""Edits by position: one change, and every other byte as it was."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.diagnostics import Edit, Place, Route
from compiler.load import edited, scalar
from compiler.load.yaml_text import parsed

TEXT = """\
# head
kind: profile
summary: x   # note
env:
  A: "1"   # first
  # about B
  B: "true"
settings: {max_num_seqs: {value: 3, reason: r}, async_scheduling: true}
engine_args:
  only: 3
ignore:
  - {rule: A, reason: b}
  - rule: B
    reason: c
  # after

notes:
  - last
"""


def _edit(action: str, route: Route, value: object = None) -> Edit:
    return Edit(action, Place("f", route), value)  # type: ignore[arg-type]


def _changes(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), n=0)
    return [line.rstrip("\n") for line in lines if line[:3] not in ("---", "+++") and line[:2] != "@@"]


@pytest.mark.parametrize(
    ("edit", "changes"),
    [
        (_edit("remove", ("env", "A")), ['-  A: "1"   # first']),
        (_edit("set", ("env", "B"), "1"), ['-  B: "true"', '+  B: "1"']),
        (_edit("set", ("env", "C"), "x"), ["+  C: x"]),
        (_edit("remove", ("settings", "async_scheduling")), ["-settings: {max_num_seqs: {value: 3, reason: r}, async_scheduling: true}", "+settings: {max_num_seqs: {value: 3, reason: r}}"]),
        (_edit("remove", ("settings", "max_num_seqs")), ["-settings: {max_num_seqs: {value: 3, reason: r}, async_scheduling: true}", "+settings: {async_scheduling: true}"]),
        (_edit("set", ("settings", "max_num_seqs"), 9), ["-settings: {max_num_seqs: {value: 3, reason: r}, async_scheduling: true}", "+settings: {max_num_seqs: {value: 9, reason: r}, async_scheduling: true}"]),
        (_edit("remove", ("engine_args", "only")), ["-engine_args:", "-  only: 3"]),
        (_edit("rename", ("engine_args", "only"), "other"), ["-  only: 3", "+  other: 3"]),
        (_edit("remove", ("ignore", 0)), ["-  - {rule: A, reason: b}"]),
        (_edit("remove", ("ignore", 1)), ["-  - rule: B", "-    reason: c"]),
        (_edit("set", ("nccl_conf",), True), ["+nccl_conf: true"]),
        (_edit("remove", ("notes", 0)), ["-notes:", "-  - last"]),
    ],
)
def test_one_change_and_nothing_else(edit: Edit, changes: list[str]) -> None:
    after = edited(TEXT, edit)
    assert after is not None
    assert _changes(TEXT, after) == changes


@pytest.mark.parametrize(
    "edit",
    [
        _edit("remove", ("env",)), _edit("set", ("env",), "1"), _edit("remove", ("env", "Z")), _edit("rename", ("kind",), "sort"), _edit("set", ("summary",), "x"),
        _edit("set", ("missing", "key"), 1), _edit("remove", ()), _edit("remove", ("ignore", 7)), _edit("rename", ("env", "A"), "B"),
    ],
)  # fmt: skip
def test_what_is_not_certain_is_left_to_a_person(edit: Edit) -> None:
    assert edited(TEXT, edit) is None


def test_windows_line_breaks_and_a_byte_order_mark_stay() -> None:
    before = "\ufeff" + TEXT.replace("\n", "\r\n")
    after = edited(before, _edit("set", ("env", "C"), "x"))
    assert after is not None
    assert after.startswith("\ufeff# head\r\n")
    assert after.replace("\r\n", "").count("\n") == 0
    assert '  B: "true"\r\n  C: x\r\n' in after


def test_a_last_line_without_its_break() -> None:
    assert edited("a:\n  b: 1", _edit("set", ("a", "c"), 2)) == "a:\n  b: 1\n  c: 2\n"
    assert edited("a:\n  b: 1\n  c: 2", _edit("remove", ("a", "c"))) == "a:\n  b: 1\n"


def test_broken_text_is_left_alone() -> None:
    assert edited("a: [", _edit("set", ("a",), 1)) is None
    assert edited("", _edit("set", ("a",), 1)) is None
    assert edited("- a\n", _edit("remove", ("a", 0))) is None


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40))
def test_any_text_is_read_back_as_it_was(value: str) -> None:
    document, problems = parsed("f", f"a: {scalar(value)}\n")
    assert problems == []
    assert document.data == {"a": value}


@given(st.sampled_from(["A", "B"]), st.one_of(st.booleans(), st.integers(-(10**9), 10**9), st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)))
def test_any_value_can_be_set_and_setting_it_again_changes_nothing(name: str, value: object) -> None:
    edit = _edit("set", ("env", name), value)
    after = edited(TEXT, edit)
    if after is not None:
        assert parsed("f", after)[0].data["env"][name] == value
        assert edited(after, edit) is None
