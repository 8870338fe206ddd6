"""The coverage page: every trap has an answer, and everything that an answer names exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from compiler.coverage import PAGE, PRACTICE, coverage_page, covers, pages, practices, record
from compiler.lint.registry import rule_by_code
from tests.support import ROOT

RECORD = record(ROOT)
COVERS = list(covers(ROOT))


def test_none_is_left_over() -> None:
    assert len(RECORD) == 419
    assert [trap for trap, answers in RECORD.items() if not isinstance(answers, list) or not answers] == []
    assert {trap for trap, _ in COVERS} == set(RECORD)


@pytest.mark.parametrize("trap", sorted(RECORD))
def test_what_answers_a_trap_exists(trap: str) -> None:
    for answer in RECORD[trap]:
        assert _exists(trap, answer), f"{trap} is said to be answered by {answer}"


def _exists(trap: str, answer: str) -> bool:
    if answer == PRACTICE.as_posix():
        return trap in practices(ROOT)
    if "/" not in answer:
        registered = rule_by_code(answer)
        return registered is not None and trap in registered.rule.traps
    file, _, function = answer.partition("::")
    path = ROOT / "tests" / file
    if function:
        return f"\ndef {function}(" in path.read_text("utf-8")
    if path.suffix == ".yaml":
        return trap in {case["name"] for case in yaml.safe_load(path.read_text("utf-8"))}
    return (path / "case.json").is_file()


@pytest.mark.parametrize("path", sorted({cover.code for _, cover in COVERS} | {cover.proof.partition("::")[0] for _, cover in COVERS}))
def test_code_and_proof_of_the_page_are_files(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_practice_is_a_sentence_of_its_page() -> None:
    sentences = practices(ROOT)
    advised = {trap for trap, answers in RECORD.items() if PRACTICE.as_posix() in answers}
    assert advised == set(sentences)
    assert [name for name, sentence in sentences.items() if not sentence.endswith(".") or len(sentence) > 160] == []


def test_the_page_has_a_row_for_each_answer() -> None:
    page = coverage_page(ROOT)
    rows = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert rows == [trap for trap, _ in COVERS]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in page.splitlines() if line.startswith("| `")} == {6}


def test_docs_keeps_the_page_current() -> None:
    assert (ROOT / PAGE).read_text("utf-8") == coverage_page(ROOT)


@pytest.mark.living
def test_docs_check_finds_a_page_that_differs(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_bytes((ROOT / "README.md").read_bytes())
    command = [sys.executable, "-m", "compiler", "docs", "--out", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    assert (tmp_path / PAGE).read_text("utf-8") == (ROOT / PAGE).read_text("utf-8")
    (tmp_path / PAGE).write_text("old\n")
    checked = subprocess.run([*command, "--check"], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert checked.returncode == 3 and PAGE in checked.stdout + checked.stderr


def test_an_installed_package_has_no_record_and_no_page(tmp_path: Path) -> None:
    assert pages(tmp_path) == {}


def test_an_answer_that_names_nothing_is_not_printed(tmp_path: Path) -> None:
    (tmp_path / "tests/cases").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests/cases/traps_covered.yaml").write_text(json.dumps({"x": ["ABC999"]}))
    (tmp_path / "docs/practice.md").write_text("")
    with pytest.raises(KeyError):
        coverage_page(tmp_path)
