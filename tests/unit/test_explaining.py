"""Decisions, rules and flags as `explain`, `list` and `engine` print them."""

from __future__ import annotations

import json

import pytest

from compiler import explaining
from compiler.lint.registry import rules
from compiler.load import SpecStore, load_specset
from compiler.resolve import resolve_plan
from compiler.schema.specset import SpecSet
from tests.support import SPECS

STORE = SpecStore([SPECS])


@pytest.fixture(scope="module")
def specs() -> SpecSet:
    found, _ = load_specset(STORE, "ornith-2xa40-dspark")
    assert found is not None
    return found


def test_every_decision_can_be_explained(specs: SpecSet, capsys: pytest.CaptureFixture[str]) -> None:
    for decision in resolve_plan(specs).decisions:
        assert explaining.print_decisions(specs, STORE, decision.route, as_json=False) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{decision.route} = ")
        assert "  from    " in out
        assert "  reason  " in out


def test_inherited_decision_points_into_the_parent(specs: SpecSet, capsys: pytest.CaptureFixture[str]) -> None:
    inherited = next(d for d in resolve_plan(specs).decisions if d.where.startswith("specs/profiles/ornith-2xa40.yaml#"))
    explaining.print_decisions(specs, STORE, inherited.route, as_json=False)
    line = capsys.readouterr().out.splitlines()[1]
    file, number = line.split()[-1].rsplit(":", 1)
    key = inherited.where.rpartition("#")[2].rpartition(".")[2]
    assert key in (SPECS.parent / file).read_text("utf-8").splitlines()[int(number) - 1]


def test_json_holds_the_measurements(specs: SpecSet, capsys: pytest.CaptureFixture[str]) -> None:
    explaining.print_decisions(specs, STORE, None, as_json=True)
    decisions = json.loads(capsys.readouterr().out)
    assert len(decisions) == len(resolve_plan(specs).decisions)
    cited = [e for d in decisions for e in d["evidence"]]
    assert cited
    assert all(e.keys() == {"id", "date", "metric", "value", "unit", "verdict", "source"} for e in cited if len(e) > 1)


def test_unknown_route_names_the_nearest(specs: SpecSet, capsys: pytest.CaptureFixture[str]) -> None:
    assert explaining.print_decisions(specs, STORE, "engine.max_num_seq", as_json=False) == 2
    assert "engine.max_num_seqs" in capsys.readouterr().err


def test_every_rule_has_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for registered in rules():
        assert explaining.print_rule(registered.rule.code) == 0
        assert "## What it flags" in capsys.readouterr().out
    assert explaining.print_rule("MEM999") == 2


def test_a_code_of_mixed_severity_claims_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert explaining.print_rule("CMD013") == 0
    assert capsys.readouterr().out.startswith("CMD013 reading-commands\n\n")
    assert explaining.print_rule("SPC011") == 0
    assert capsys.readouterr().out.startswith("SPC011 reading-specs (error)\n\n")
    assert explaining.print_rule("CMD013", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["severity"] is None


def test_flags_and_their_difference(capsys: pytest.CaptureFixture[str]) -> None:
    tables = {}
    for name in ("vllm-0.26.0", "vllm-0.27.1"):
        tables[name], _ = STORE.flags(STORE.spec("engine", name)[0].flags, None)  # type: ignore[arg-type]
    older, newer = tables["vllm-0.26.0"], tables["vllm-0.27.1"]
    assert older is not None
    assert newer is not None
    assert explaining.print_flag(newer, "max-model-len", as_json=False) == 0
    assert "--max-model-len" in capsys.readouterr().out
    assert explaining.print_flag(newer, "no-such", as_json=False) == 2
    capsys.readouterr()
    explaining.print_flag_diff(older, newer, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert set(found["added"]) == newer.flags.keys() - older.flags.keys()
    assert set(found["removed"]) == older.flags.keys() - newer.flags.keys()
    explaining.print_flag_diff(newer, newer, as_json=False)
    assert capsys.readouterr().out.startswith("vLLM 0.27.1 -> 0.27.1: 0 options removed, 0 added, 0 changed")
