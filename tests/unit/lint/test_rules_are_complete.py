"""What each rule brings: a page, a registry line, cases, a code and a name of its own, known traps."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from compiler.diagnostics import stops
from compiler.lint.pages import missing_sections, rule_pages, summary
from compiler.lint.registry import FILES, RegisteredRule, rules
from compiler.lint.runner import apply_ignores, findings
from tests.support import ROOT, SPECS, subject
from tests.unit.lint.rule_cases import FOLDER, cases_of

RULE_FOLDER = ROOT / "compiler" / "lint" / "rules"
TRAPS = yaml.safe_load((ROOT / "tests" / "cases" / "traps_covered.yaml").read_text("utf-8"))
EACH_RULE = pytest.mark.parametrize("registered", rules(), ids=lambda r: r.rule.code)
PROFILES = sorted(file.stem for file in (SPECS / "profiles").glob("*.yaml"))


def _file(registered: RegisteredRule) -> Path:
    return Path(str(registered.module.__file__))


def test_every_rule_file_has_one_registry_line() -> None:
    on_disk = sorted(f.relative_to(RULE_FOLDER).with_suffix("").as_posix() for f in RULE_FOLDER.glob("*/*.py") if f.name != "__init__.py")
    assert sorted(FILES) == on_disk


def test_codes_and_names_are_unique() -> None:
    for values in ([r.rule.code for r in rules()], [r.rule.name for r in rules()]):
        assert [value for value, count in Counter(values).items() if count > 1] == []


def test_at_least_forty_rules_in_order() -> None:
    codes = [r.rule.code for r in rules()]
    assert len(codes) >= 40
    assert codes == sorted(codes)


@EACH_RULE
def test_file_is_named_after_code_and_name(registered: RegisteredRule) -> None:
    rule, file = registered.rule, _file(registered)
    assert re.fullmatch(r"[A-Z]{2,4}\d{3}", rule.code)
    assert file.parent.name == rule.family.lower()
    assert file.stem == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"


@EACH_RULE
def test_page_has_all_sections_in_order(registered: RegisteredRule) -> None:
    assert missing_sections(registered.page) == []
    assert summary(registered.page).endswith(".")


@EACH_RULE
def test_file_is_at_most_eighty_lines(registered: RegisteredRule) -> None:
    assert len(_file(registered).read_text("utf-8").splitlines()) <= 80


@EACH_RULE
def test_rule_has_a_failing_and_a_passing_case(registered: RegisteredRule) -> None:
    counts = [case["hits"] for case in cases_of(FOLDER / f"{registered.rule.code}.yaml")]
    assert any(counts), "no case in which it hits"
    assert not all(counts), "no case in which it is silent"


@EACH_RULE
def test_claimed_traps_are_recorded(registered: RegisteredRule) -> None:
    assert [trap for trap in registered.rule.traps if trap not in TRAPS] == []


def test_recorded_answers_are_claimed_by_those_rules() -> None:
    claimed = {r.rule.code: r.rule.traps for r in rules()}
    for trap, answer in TRAPS.items():
        for code in (a for a in answer if not is_test(a)):
            assert trap in claimed.get(code, ()), f"{trap} is said to be answered by {code}"


def is_test(answer: str) -> bool:
    """Whether an answer names a test, and not a rule."""
    return "/" in answer


def test_every_case_file_belongs_to_a_rule() -> None:
    assert {file.stem for file in FOLDER.glob("*.yaml")} == {r.rule.code for r in rules()}


def test_every_rule_has_a_page_and_a_row() -> None:
    pages = rule_pages()
    for r in rules():
        assert f"# {r.rule.code}: {summary(r.page)}" in pages[f"{r.rule.code}.md"]
        assert f"[{r.rule.code}]({r.rule.code}.md)" in pages["README.md"]


@pytest.mark.parametrize("profile", PROFILES)
def test_no_shipped_profile_has_an_error(profile: str) -> None:
    seen = subject(profile)
    kept = apply_ignores(findings(seen, "plan"), seen.specs)
    assert not stops(kept), [(d.code, d.what) for d in kept if d.is_error]


@pytest.mark.parametrize("profile", PROFILES)
def test_messages_are_sentences_for_their_reader(profile: str) -> None:
    for d in findings(subject(profile), "plan"):
        assert d.what
        assert d.why
        assert d.fix
        assert d.what not in (d.why, d.fix)
