"""The runner: order of findings, accepted findings, and findings about `ignore:` entries."""

from __future__ import annotations

import dataclasses
from typing import Any

from compiler.diagnostics import Diagnostic, Place, Severity, dotted
from compiler.lint.reach import REACH, unproved
from compiler.lint.registry import rules
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


def test_an_error_that_is_no_refusal_is_accepted() -> None:
    seen = subject("nemotron-ada", _ignoring("SEC002", env={"A_TOKEN": "hf_" + "abcdefghijklmnopqrstuvwxyz01234567"}))
    found = findings(seen, "plan")
    assert [d.severity for d in found if d.code == "SEC002"] == [Severity.ERROR]
    assert "SEC002" not in _codes(apply_ignores(found, seen.specs))


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


def test_an_error_on_a_release_that_was_not_checked_is_a_warning_that_says_so() -> None:
    changes = {"settings.kv_cache_dtype": {"value": "turboquant_k3v4_nc", "reason": "in a test"}, "speculation": {"method": "ngram", "tokens": 4, "reason": "in a test"}}
    here, later = ([d for d in findings(subject("qwen38-2xa40", {"profile": {**changes, **more}}), "plan") if d.code == "KVC004"] for more in ({}, {"engine": "vllm-0.33.0"}))
    assert [d.severity for d in here] == [Severity.ERROR]
    assert [d.severity for d in later] == [Severity.WARNING]
    assert "not checked on this release, 0.33.0" in later[0].why
    assert "not checked" not in here[0].why


def test_a_rule_is_silent_outside_its_releases_and_cards() -> None:
    changes = {"speculation": {"method": "mtp", "tokens": 2, "reason": "in a test"}}
    assert "KVC003" in _codes(findings(subject("ornith-ada", {"profile": changes}), "plan"))
    assert "KVC003" not in _codes(findings(subject("ornith-ada", {"profile": changes, "hardware": {"gpu.compute_capability": "9.0"}}), "plan"))
    assert not REACH["CTX011"].covers_release((0, 27, 1)) and REACH["CTX011"].covers_release((0, 26, 0))
    assert not REACH["CTX009"].covers_release((0, 25, 1))


def test_reach_names_rules_and_says_its_bounds() -> None:
    codes = {r.rule.code for r in rules()}
    assert set(REACH) <= codes
    assert all(reach.until is None or reach.checked < reach.until for reach in REACH.values())
    assert unproved((0, 27, 1), 89) == []
    assert "KVC003" in unproved((0, 33, 0), 89) and "KVC003" not in unproved((0, 33, 0), 120)
    assert "CTX011" not in unproved((0, 33, 0), 89)
    assert REACH["KVC003"].text == "errors checked up to vLLM 0.27.1; compute capability 8.9"
    assert REACH["CTX011"].text == "errors checked up to vLLM 0.26.0; gone in 0.27"
    assert REACH["QNT015"].text.endswith("compute capability 12.0 and later")
