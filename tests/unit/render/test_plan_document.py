"""PLAN.md: complete, and nothing in a plan can break its tables."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.diagnostics import Diagnostic, Place, Severity
from compiler.plan.core import Decision, EnvVar, Override, ScriptPatch, Setting
from compiler.render.plan_document import argv_lines, code, render_plan_document, text
from tests.unit.render.plans import example_engine, example_model, example_plan

DIAGNOSTIC = Diagnostic("MEM002", Severity.WARNING, "tight", "it may fail", "take less", Place("specs/profiles/p.yaml", ("settings",)))


def document(**changes: object) -> str:
    return render_plan_document(example_plan(**changes), [DIAGNOSTIC], ["Do this."]).text


def test_each_section_is_there() -> None:
    engine = example_engine(settings=(Setting("max_num_seqs", 64, ("--max-num-seqs", "64")),))
    decisions = (Decision("engine.max_num_seqs", "64", "profile", "specs/profiles/p.yaml#settings.max_num_seqs", "enough", ("a40/x",)),
                 Decision("storage.container_disk_gb", "200", "computed", "", "weights"))
    model = example_model(script_patches=(ScriptPatch("fix.py", "o/r", None, "loads at all"),))
    shown = document(engine=engine, decisions=decisions, model=model)
    assert "| `max_num_seqs` | `--max-num-seqs 64` | profile `specs/profiles/p.yaml#settings.max_num_seqs` | enough [`a40/x`] |" in shown
    assert "| `storage.container_disk_gb` | `200` | computed | weights |" in shown
    assert "run, sha256 `not locked`" in shown
    assert "- MEM002 warning, `specs/profiles/p.yaml#settings`: tight\n  - Why: it may fail\n  - Fix: take less" in shown
    assert ". Do this.\n" in shown and "1. Fix commits and digests" in shown and "Build the image" in shown
    assert "Not done by this version" not in shown
    assert "vllm serve owner/Example-30B\n    --port 18081\n" in shown


def test_empty_sections_are_left_out_and_nothing_found_is_said() -> None:
    shown = render_plan_document(example_plan(), [], []).text
    assert "## Patches" not in shown and "- None." in shown
    assert "\n\n\n" not in shown and shown.endswith("|\n")


def test_pipes_and_line_breaks_stay_inside_their_cell() -> None:
    shown = document(pod_env=(EnvVar("X", "a|b\nc `d`", "e|f\ng"),))
    row = next(line for line in shown.splitlines() if line.startswith("| `X`"))
    assert row.replace("\\|", "").count("|") == 5


def test_each_lever_says_what_it_changes() -> None:
    levers = tuple(Override("VL_X", "a|b", "Does it.", setting) for setting in ("max_num_seqs", "bootstrap.offline", "runtime.bridge"))
    rows = [line for line in document(overrides=levers).splitlines() if line.startswith("| `VL_X`")]
    assert [row.split(" | ")[-1] for row in rows] == ["`--max-num-seqs` |", "the bootstrap |", "the runtime |"]


def test_an_own_machine_has_a_fixed_address() -> None:
    plan = dataclasses.replace(example_plan(), target="docker")
    assert "The endpoint is `http://127.0.0.1:8080`." in render_plan_document(plan, [], []).text


@pytest.mark.parametrize(("value", "shown"), [("a", "`a`"), ("", ""), ("`", "`` ` ``"), ("a``b", "```a``b```"), ("a|b", "`a\\|b`")])
def test_code_spans_hold_backquotes(value: str, shown: str) -> None:
    assert code(value) == shown


@given(st.text())
def test_any_text_stays_on_one_line_of_a_table(value: str) -> None:
    for shown in (text(value), code(value)):
        assert len(shown.splitlines()) <= 1
        assert "|" not in shown.replace("\\|", "")


def test_a_command_line_is_quoted_for_a_shell() -> None:
    assert argv_lines(["vllm", "serve", "a b", "--x", '{"y": 1}', "--z"]) == ["vllm serve 'a b'", "    --x '{\"y\": 1}'", "    --z"]
