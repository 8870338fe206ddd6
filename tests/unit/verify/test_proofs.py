"""The proofs that the real release is asked about: each names a case in which its rule is an error, and the page counts them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support import ROOT
from tests.unit.lint.rule_cases import FOLDER, cases_of, hits

PROOFS: list[dict[str, str]] = yaml.safe_load((ROOT / "tests" / "cases" / "verify" / "proofs.yaml").read_text("utf-8"))


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof['rule']}: {proof['case']}")
def test_a_proof_names_an_error(proof: dict[str, str]) -> None:
    found: dict[str, Any] = next(case for case in cases_of(FOLDER / f"{proof['rule']}.yaml") if case["name"] == proof["case"])
    assert any(d.is_error for d in hits(proof["rule"], found))
    assert proof["stage"] in ("parser", "configuration", "model", "cache") and proof["says"]


def test_no_proof_stands_twice_and_the_page_counts_them() -> None:
    assert len({(p["rule"], p["case"]) for p in PROOFS}) == len(PROOFS)
    page = (ROOT / "docs" / "verify.md").read_text("utf-8")
    assert f"{len(PROOFS)} cases of {len({p['rule'] for p in PROOFS})} rules" in page
