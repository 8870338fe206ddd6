"""Every rule against its cases."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.diagnostics import dotted
from tests.unit.lint.rule_cases import all_cases, hits

CASES = all_cases()


@pytest.mark.parametrize(("code", "case"), CASES, ids=[f"{code}: {case['name']}" for code, case in CASES])
def test_rule_hits_as_its_case_says(code: str, case: dict[str, Any]) -> None:
    found = hits(code, case)
    assert len(found) == case["hits"], [d.what for d in found]
    assert {str(d.severity) for d in found} <= {case.get("severity", str(d.severity)) for d in found}
    if "at" in case:
        assert case["at"] in [dotted(d.place.route) for d in found]


@pytest.mark.parametrize(("code", "case"), CASES, ids=[f"{code}: {case['name']}" for code, case in CASES])
def test_case_is_written_with_known_keys(code: str, case: dict[str, Any]) -> None:
    assert set(case) <= {"name", "base", "set", "hits", "severity", "at", "artifacts"}
    assert set(case.get("set", {})) <= {"profile", "model", "hardware", "engine"}
    assert case["hits"] > 0 or not {"severity", "at"} & set(case), "a pass case has no severity and no place"
