"""`lint --fix`: the rules' own changes, in the files that people wrote, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from compiler.diagnostics import Diagnostic, Edit, Place, Severity
from compiler.fixing import diff, fixed
from compiler.lint.registry import rules
from compiler.lint.rule import Subject
from compiler.lint.runner import apply_ignores, findings
from compiler.load import SpecStore, load_specset
from compiler.resolve import resolve_plan
from tests.support import ROOT, SPECS, subject
from tests.unit.lint.rule_cases import FOLDER, cases_of

WITH_EDIT = sorted(r.rule.code for r in rules() if "edit=" in Path(str(r.module.__file__)).read_text("utf-8"))
PROFILE = """\
# yaml-language-server: $schema=../schemas/profile.schema.json
kind: profile
summary: "For a test"   # a comment
extends: nemotron-ada

# about the environment
env:
  VLLM_USE_V2_MODEL_RUNNER: {value: "true", reason: "asked"}   # by hand
  CUDA_HOME: ":/usr/local/cuda"
engine_args:
  task:   generate    # kept
  max_seq_len_to_capture: {value: 8192, reason: wide}
  swap_space: 4
  num_scheduler_steps: 8
ignore:
  - {rule: MEM001, reason: it fits}
  - {rule: ENG012, reason: for now}
"""


def _found(name: str = "mine"):  # type: ignore[no-untyped-def]
    def found(store: SpecStore) -> Sequence[Diagnostic]:
        specs, problems = load_specset(store, name)
        return [*problems, *(apply_ignores(findings(Subject(specs, resolve_plan(specs), {}), "plan"), specs) if specs else ())]

    return found


def _folder(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "own" / "profiles" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_bytes(text.encode())
    return file


def test_mechanical_findings_go_and_everything_else_stays(tmp_path: Path) -> None:
    file = _folder(tmp_path, PROFILE)
    _, diagnostics, changes = fixed(_found(), [tmp_path / "own", SPECS])
    expected = (
        PROFILE.replace('"true"', '"1"').replace('  CUDA_HOME: ":/usr/local/cuda"\n', "").replace("  num_scheduler_steps: 8\n", "")
        .replace("max_seq_len_to_capture", "max_cudagraph_capture_size").replace("ignore:\n  - {rule: MEM001, reason: it fits}\n  - {rule: ENG012, reason: for now}\n", "")
    )  # fmt: skip
    assert file.read_text("utf-8") == expected
    assert changes == {file.resolve(): (PROFILE, expected)}
    codes = [d.code for d in diagnostics]
    assert codes.count("ENG002") == 2  # `task` and `swap_space` have more than one answer.
    assert not {"ENG013", "ENG021", "IGN001"} & set(codes)
    shown = diff(file.resolve(), PROFILE, expected)
    assert '-  CUDA_HOME: ":/usr/local/cuda"' in shown.splitlines()


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    file = _folder(tmp_path, PROFILE)
    fixed(_found(), [tmp_path / "own", SPECS])
    first, stamp = file.read_bytes(), file.stat().st_mtime_ns
    _, _, changes = fixed(_found(), [tmp_path / "own", SPECS])
    assert changes == {}
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (first, stamp)


def test_mode_line_breaks_and_links_stay(tmp_path: Path) -> None:
    file = _folder(tmp_path, PROFILE.replace("\n", "\r\n"))
    real = tmp_path / "real.yaml"
    file.rename(real)
    file.symlink_to(real)
    real.chmod(0o640)
    fixed(_found(), [tmp_path / "own", SPECS])
    assert file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert b"CUDA_HOME" not in real.read_bytes()
    assert real.read_bytes().count(b"\n") == real.read_bytes().count(b"\r\n")


def test_a_change_that_breaks_a_spec_is_taken_back(tmp_path: Path) -> None:
    file = _folder(tmp_path, PROFILE)
    place = Place("specs/profiles/mine.yaml", ("settings_of_nobody",))

    def found(store: SpecStore) -> Sequence[Diagnostic]:
        _, problems = load_specset(store, "mine")
        return [*problems, Diagnostic("ENG001", Severity.ERROR, "a", "b", "c", place, edit=Edit("set", place, 1))]

    _, diagnostics, changes = fixed(found, [tmp_path / "own", SPECS])
    assert changes == {}
    assert file.read_text("utf-8") == PROFILE
    assert [d.code for d in diagnostics] == ["ENG001"]


def test_a_parent_is_changed_where_the_value_was_written(tmp_path: Path) -> None:
    file = _folder(tmp_path, PROFILE)
    (file.parent / "child.yaml").write_text("kind: profile\nsummary: A child.\nextends: mine\n", "utf-8")
    _, _, changes = fixed(_found("child"), [tmp_path / "own", SPECS])
    assert file.resolve() in changes
    assert (file.parent / "child.yaml").read_text("utf-8") == "kind: profile\nsummary: A child.\nextends: mine\n"


def test_shipped_specs_need_no_change() -> None:
    for profile in ("nemotron-ada", "qwen36-2x4090"):
        store = SpecStore([SPECS])
        assert [d.edit for d in _found(profile)(store) if d.edit and d.is_error] == []


@pytest.mark.parametrize("code", [code for code in WITH_EDIT if code != "IGN001"])  # Its subject is a profile's ignore list: tested above.
def test_a_rule_with_a_change_makes_it_in_one_of_its_cases(code: str) -> None:
    """The change is carried by a hit of the rule's own cases, at a place and of a kind that an editor takes."""
    registered = next(r for r in rules() if r.rule.code == code)
    edits = []
    for case in cases_of(FOLDER / f"{code}.yaml"):
        if case["hits"]:
            edits += [hit.edit for hit in registered.checked.check(subject(case["base"], case.get("set"))) if hit.edit is not None]
    assert edits
    assert all(len(edit.place.route) > 1 or edit.action == "set" for edit in edits)


def test_the_page_lists_exactly_these_rules() -> None:
    page = (ROOT / "docs" / "lint.md").read_text("utf-8")
    table = page.partition("<!-- begin fixes -->")[2].partition("<!-- end fixes -->")[0]
    assert sorted(re.findall(r"^\| ([A-Z]{3}\d{3}) ", table, re.MULTILINE)) == WITH_EDIT


def test_an_edit_in_a_rule_is_given_to_its_hit() -> None:
    """`Edit(...)` that no hit carries would be a change that never happens."""
    for registered in rules():
        tree = ast.parse(Path(str(registered.module.__file__)).read_text("utf-8"))
        made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Edit"]
        given = [k for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "Hit" for k in n.keywords if k.arg == "edit"]
        assert bool(made) == bool(given), registered.rule.code
