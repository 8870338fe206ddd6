"""Figures of the deployment documents against the plans of shipped profiles; a figure that calibrated something never counts as reproduced."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from compiler.plan.memory import Interval, MemoryPlan
from tests.support import REMOVE, ROOT, subject

DATA = yaml.safe_load((ROOT / "tests" / "cases" / "document_figures.yaml").read_text("utf-8"))
FIGURES, QUOTIENTS = DATA["figures"], DATA["quotients"]
EVIDENCE = {f"{file.stem}/{record['id']}" for file in (ROOT / "specs" / "evidence").glob("*.yaml") for record in yaml.safe_load(file.read_text("utf-8"))["records"]}


def _chosen(changes: dict[str, Any]) -> dict[str, Any]:
    """Changes in the form of specs: a setting of a profile says its reason."""
    return {route: value if value == REMOVE or not route.startswith("settings.") else {"value": value, "reason": "As measured."} for route, value in changes.items()}


def _plan(profile: str, changes: dict[str, Any]) -> MemoryPlan:
    return subject(profile, {"profile": _chosen(changes)}).plan.memory


@pytest.mark.parametrize("figure", FIGURES, ids=[f["id"] for f in FIGURES])
def test_a_measured_figure_is_what_the_plan_says(figure: dict[str, Any]) -> None:
    plan = _plan(figure["profile"], figure["changes"])
    if plan.calibration is not None and plan.calibration.evidence == figure["evidence"]:
        assert figure["standing"] == "calibrated", "what corrects a plan cannot be reproduced by it"
    for field, seen in figure.get("seen", {}).items():
        planned = getattr(plan, field)
        if isinstance(seen, dict):
            assert planned.low <= seen["inside"] <= planned.high, f"{field}: {planned}"
        else:
            middle = planned.mid if isinstance(planned, Interval) else planned
            assert abs(middle - seen) <= figure["within"] * seen, f"{field}: {middle} planned, {seen} measured"


@pytest.mark.parametrize("figure", FIGURES, ids=[f["id"] for f in FIGURES])
def test_verdict_and_warnings_are_those_of_the_document(figure: dict[str, Any]) -> None:
    plan = _plan(figure["profile"], figure["changes"])
    assert plan.verdict == figure.get("verdict", plan.verdict)
    assert plan.verdict != figure.get("never")
    assert set(figure.get("warns", ())) <= set(plan.warnings)
    assert not set(figure.get("silent", ())) & set(plan.warnings)


@pytest.mark.parametrize("figure", QUOTIENTS, ids=[f["id"] for f in QUOTIENTS])
def test_two_capacities_differ_as_measured(figure: dict[str, Any]) -> None:
    first, second = (_plan(figure["profile"], {**figure["changes"], **one}).kv_tokens.mid for one in figure["each"])
    assert abs(first / second - figure["seen"]) <= figure["within"] * figure["seen"]


def test_every_figure_cites_its_record_and_stands_as_one_thing() -> None:
    for figure in (*FIGURES, *QUOTIENTS):
        cited = figure["evidence"] if isinstance(figure["evidence"], list) else [figure["evidence"]]
        assert set(cited) <= EVIDENCE, figure["id"]
        assert figure["standing"] in ("calibrated", "reproduced")
        assert ("why" in figure) == (figure["standing"] == "calibrated"), figure["id"]
        assert figure.get("seen") or figure.get("warns")
    assert len({f["id"] for f in (*FIGURES, *QUOTIENTS)}) == len(FIGURES) + len(QUOTIENTS)
    assert sum(f["standing"] == "reproduced" for f in (*FIGURES, *QUOTIENTS)) >= 10


def test_no_number_is_counted_twice() -> None:
    """One record's one figure is either what calibrated or what is reproduced."""
    standing: dict[tuple[str, str], str] = {}
    for figure in FIGURES:
        for field in (*figure.get("seen", {}), *figure.get("warns", ())):
            key = (figure["evidence"], field)
            assert standing.setdefault(key, figure["standing"]) == figure["standing"], key
