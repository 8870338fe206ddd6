"""The runner: order of findings, accepted findings, and findings about `ignore:` entries."""

from __future__ import annotations

import dataclasses
from typing import Any

from compiler.diagnostics import Diagnostic, Place, Severity, dotted
from compiler.lint.rule import Hit, Rule
from compiler.lint.runner import apply_ignores, findings
from tests.support import specset, subject

NARROW = {"settings.max_num_batched_tokens": 128, "settings.max_num_seqs": 256}


def _ignoring(*codes: str, **changes: Any) -> dict[str, dict[str, object]]:
    return {"profile": {"ignore": [{"rule": code, "reason": "accepted in a test"} for code in codes], **changes}}


def _codes(diagnostics: list[Diagnostic]) -> list[str]:
    return [d.code for d in diagnostics]


def test_findings_come_in_the_order_of_codes() -> None:
    seen = subject("nemotron-ada", {"profile": {**NARROW, "settings.enforce_eager": True}})
    codes = _codes(findings(seen, "plan"))
    assert codes == sorted(codes)
    assert {"CTX010", "QNT012"} <= set(codes)


def test_a_warning_is_accepted() -> None:
    seen = subject("nemotron-ada", _ignoring("QNT012", **{"settings.enforce_eager": True}))
    found = findings(seen, "plan")
    assert "QNT012" in _codes(found)
    assert _codes(apply_ignores(found, seen.specs)) == [c for c in _codes(found) if c != "QNT012"]


def test_an_error_about_speed_is_accepted() -> None:
    changes = _ignoring("KVC003", **{"speculation.method": "mtp", "speculation.tokens": 2})
    seen = subject("ornith-ada", changes)
    found = findings(seen, "plan")
    assert [d.severity for d in found if d.code == "KVC003"] == [Severity.ERROR]
    assert "KVC003" not in _codes(apply_ignores(found, seen.specs))


def test_a_refusal_stays_and_its_ignore_is_reported() -> None:
    seen = subject("nemotron-ada", _ignoring("CTX010", **NARROW))
    kept = apply_ignores(findings(seen, "plan"), seen.specs)
    assert "CTX010" in _codes(kept)
    assert [dotted(d.place.route) for d in kept if d.code == "IGN003"] == ["ignore[0].rule"]


def test_an_unused_ignore_is_reported_at_its_entry() -> None:
    seen = subject("nemotron-ada", _ignoring("QNT012", "KVC004"))
    kept = apply_ignores([], seen.specs)
    assert [(d.code, dotted(d.place.route)) for d in kept] == [("IGN001", "ignore[0].rule"), ("IGN001", "ignore[1].rule")]


def test_an_unknown_code_names_the_nearest() -> None:
    seen = subject("nemotron-ada", _ignoring("QNT099"))
    (finding,) = apply_ignores([], seen.specs)
    assert finding.code == "IGN002"
    assert "QNT0" in finding.fix


def test_ignores_about_artifacts_are_not_judged_after_an_error() -> None:
    specs = specset("nemotron-ada", _ignoring("IMG010"))
    error = Diagnostic("MEM001", Severity.ERROR, "it does not fit", "why", "fix", Place("specs/profiles/nemotron-ada.yaml"))
    assert _codes(apply_ignores([error], specs)) == ["MEM001"]
    assert _codes(apply_ignores([], specs)) == ["IGN001"]


def test_an_error_of_an_unregistered_code_cannot_be_accepted() -> None:
    specs = specset("nemotron-ada", _ignoring("TGT001"))
    error = Diagnostic("TGT001", Severity.ERROR, "refused", "why", "fix", Place("specs/profiles/nemotron-ada.yaml"))
    assert "TGT001" in _codes(apply_ignores([error], specs))


def test_a_hit_may_soften_its_rule() -> None:
    seen = subject("nemotron-ada", {"profile": {"settings.max_num_seqs": 8}})
    (finding,) = [d for d in findings(seen, "plan") if d.code == "CTX013"]
    assert finding.severity is Severity.INFO


def test_rules_and_hits_are_immutable() -> None:
    for value in (Rule("MEM001", "x", Severity.ERROR), Hit(Place("x"), "what", "why", "fix")):
        assert dataclasses.is_dataclass(value)
        assert value.__dataclass_params__.frozen  # type: ignore[attr-defined]
