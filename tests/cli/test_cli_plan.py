"""`podwright plan --what-if`, `plan --solve` and `fit` as a person and a script meet them."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import podwright

pytestmark = pytest.mark.living


def test_what_if_shows_both_side_by_side() -> None:
    ended = podwright("plan", "nemotron-ada", "--what-if", "engine.gpu_memory_utilization=0.90", "--what-if", "serve.context=262144")
    assert ended.code == 0
    row = next(line for line in ended.out.splitlines() if "context " in line and "1,048,576" in line)
    assert "262,144" in row
    assert "findings are the same" in ended.out


def test_what_if_as_json_holds_both_plans() -> None:
    ended = podwright("plan", "nemotron-ada", "--what-if", "max_num_seqs=6", "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["ok"]) == (0, True)
    assert (found["before"]["engine"]["max_num_seqs"], found["after"]["engine"]["max_num_seqs"]) == (64, 6)
    assert "CTX013" in [d["code"] for d in found["appeared"]]


def test_a_refused_change_is_a_code_and_both_are_shown() -> None:
    ended = podwright("plan", "nemotron-ada", "--what-if", "model.weights.loaded=90GB")
    assert ended.code == 1
    assert "appears: MEM001 error" in ended.out


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("engine.gpu_memory_utilisation=0.9", "PLN001"),
        ("context=-1", "SPC013"),
        ("hardware=2xa41", "SPC020"),
        ("settings.max_num_seqz=1", "SPC011"),
        ("context", "PLN001"),
        ("summary.x=1", "PLN001"),
    ],
)
def test_a_wrong_path_or_value_is_a_finding(text: str, code: str) -> None:
    ended = podwright("plan", "nemotron-ada", "--what-if", text)
    assert ended.code == 1
    assert f"--what-if {text}: {code} error:" in ended.err
    assert "fix:" in ended.err
    assert not ended.out
    as_json = podwright("plan", "nemotron-ada", "--what-if", text, "--json")
    assert code in [d["code"] for d in json.loads(as_json.out)["findings"]]


def test_solve_context_is_planned_again() -> None:
    found = json.loads(podwright("plan", "qwen38-2xa40", "--solve", "context", "--json").out)
    assert found["found"]["context"] == found["after"]["engine"]["max_model_len"] == found["before"]["memory"]["longest_context_safe"]
    assert found["after"]["memory"]["verdict"] == "fits"


def test_solve_sessions_in_words() -> None:
    ended = podwright("plan", "qwen38-2xa40", "--solve", "sessions=10@85k")
    assert ended.code == 0
    assert "sessions=10@85k: yes, with " in ended.out
    assert "  costs " in ended.out


def test_cannot_is_an_answer() -> None:
    ended = podwright("plan", "qwen3-coder-a40", "--solve", "sessions=6@85k")
    assert ended.code == 1
    assert "cannot. The nearest miss" in ended.out
    assert json.loads(podwright("plan", "qwen3-coder-a40", "--solve", "sessions=6@85k", "--json").out)["ok"] is False


def test_a_goal_that_is_none() -> None:
    ended = podwright("plan", "nemotron-ada", "--solve", "speed")
    assert ended.code == 1
    assert "PLN002 error" in ended.err


def test_fit_in_words_and_as_json() -> None:
    ended = podwright("fit", "nemotron-nvfp4")
    assert ended.code == 0
    assert ended.out.startswith("nemotron-nvfp4: fits ")
    assert "0.74 (2026-08-23)" in ended.out
    rows = json.loads(podwright("fit", "nemotron-nvfp4", "--json").out)["hardware"]
    assert rows[0]["hardware"] == "rtx-6000-ada"
    assert rows[0]["windows"]["low"] > 6


def test_fit_of_an_unknown_model() -> None:
    ended = podwright("fit", "nemotron")
    assert ended.code == 1
    assert "SPC020 error: no model spec `nemotron`" in ended.err


def test_help_has_examples() -> None:
    for command in ("plan", "fit"):
        assert "Examples:" in podwright(command, "--help").out
