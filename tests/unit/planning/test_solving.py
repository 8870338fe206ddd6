"""Settings that fit, checked by planning once more."""

from __future__ import annotations

import pytest

from compiler.diagnostics import Diagnostic
from compiler.planning.solving import Goal, Solution, parsed_goal, solved
from tests.unit.planning.test_changes import SHIPPED, after


def solution(profile: str, goal: Goal, *given: str) -> Solution:
    """The answer for a shipped profile, with changes given."""
    return solved(SHIPPED, after(profile), after(profile, *given), goal, given)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("context", Goal("context")),
        ("sessions=6@85k", Goal("sessions=6@85k", 6, 85_000)),
        ("sessions=1@256Ki", Goal("sessions=1@256Ki", 1, 262_144)),
    ],
)
def test_goals(text: str, goal: Goal) -> None:
    assert parsed_goal(text) == goal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "speed",
        "sessions",
        "sessions=0@85k",
        "sessions=6",
        "sessions=6@0",
        "sessions=6@-1",
        "sessions=6@1.2.3",
        "sessions=-1@5",
        "sessions=6@85x",
        "context=5",
    ],
)
def test_what_is_no_goal(text: str) -> None:
    found = parsed_goal(text)
    assert isinstance(found, Diagnostic)
    assert (found.code, found.is_error) == ("PLN002", True)


@pytest.mark.parametrize(
    ("profile", "given"), [("qwen38-2xa40", ()), ("qwen38-blackwell", ()), ("qwen36-2x4090", ()), ("ornith-2xa40", ("hardware=a40",))]
)
def test_the_largest_window_fits_and_one_token_more_does_not(profile: str, given: tuple[str, ...]) -> None:
    found = solution(profile, Goal("context"), *given).found
    assert found is not None
    assert after(profile, *given, f"context={found.context}").fits
    assert not after(profile, *given, f"context={found.context + 1}").fits


def test_the_models_own_limit_ends_the_search() -> None:
    found = solution("nemotron-ada", Goal("context")).found
    assert found is not None
    assert found.context == 1_048_576


def test_no_window_is_an_answer() -> None:
    answer = solution("nemotron-ada", Goal("context"), "model.weights.loaded=90GB")
    assert (answer.found, answer.nearest is not None and answer.nearest.verdict) == (None, "refused")
    assert answer.nearest is not None
    assert "MEM001" in answer.nearest.missing


def test_sessions_that_fit_already_need_no_change() -> None:
    found = solution("qwen38-2xa40", Goal("x", 6, 85_000)).found
    assert found is not None
    assert (found.changes, found.does) == ((), True)
    assert found.held.low >= 6


@pytest.mark.parametrize("goal", [Goal("x", 10, 85_000), Goal("x", 36, 20_000), Goal("x", 2, 400_000)])
def test_found_settings_hold_the_sessions_when_planned_again(goal: Goal) -> None:
    found = solution("qwen38-2xa40", goal).found
    assert found is not None
    again = after("qwen38-2xa40", *found.changes)
    assert again.fits
    assert again.plan.engine.max_model_len >= goal.tokens
    assert again.plan.engine.max_num_seqs >= goal.sessions
    counted = after("qwen38-2xa40", *(c for c in found.changes if "max_model_len" not in c), f"engine.max_model_len={goal.tokens}")
    assert counted.plan.memory.concurrency.low >= goal.sessions
    assert len(found.costs) == len(found.changes)


def test_fewest_changes_win() -> None:
    answer = solution("qwen38-2xa40", Goal("x", 10, 85_000))
    assert answer.found is not None
    assert not [c for c in answer.candidates if c.does and len(c.changes) < len(answer.found.changes)]


def test_a_near_miss_tells_by_how_little() -> None:
    answer = solution("qwen3-coder-a40", Goal("x", 6, 85_000))
    assert answer.found is None
    assert answer.nearest is not None
    assert 5 < answer.nearest.held.low < 6
    assert f"{answer.nearest.held.low:.2f} of 6 sessions" in answer.nearest.missing


def test_more_than_the_model_can_be_served_with() -> None:
    answer = solution("tiny-cpu", Goal("x", 1, 85_000))
    assert answer.found is None
    assert answer.nearest is not None
    assert "native" in answer.nearest.missing
