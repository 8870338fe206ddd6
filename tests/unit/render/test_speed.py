"""How the expected speed is told."""

from __future__ import annotations

from compiler.plan.memory import Interval
from compiler.plan.speed import SpeedFigure, SpeedPlan
from compiler.render.plan_document import render_plan_document
from compiler.render.report import FindingCounts, report, speed_lines
from tests.unit.render.plans import example_plan

FIGURES = (
    SpeedFigure("solo", 1, 1000, Interval(90.0, 100.0, 110.0)), SpeedFigure("solo", 1, 85_000, Interval(80.0, 90.0, 100.0)),
    SpeedFigure("aggregate", 6, 1000, Interval(400.0, 450.0, 500.0)), SpeedFigure("prefill", 1, 0, Interval(5000.0, 6000.0, 7000.0)),
)  # fmt: skip
SPEED = SpeedPlan("same-model", "Calibrated on records of a_model.", "1 GB a token", FIGURES, ("topic/one", "topic/two"))


def test_one_line_for_each_way_to_serve() -> None:
    assert speed_lines(SPEED) == [
        "alone 100 (90 to 110) tok/s at 1,000 tokens, 90 (80 to 100) tok/s at 85,000 tokens",
        "with 6 sessions together 450 (400 to 500) tok/s at 1,000 tokens",
        "prefill 6,000 (5,000 to 7,000) tok/s, the prompts' lengths not recorded",
    ]


def test_without_evidence_the_reason_stands_where_the_number_would() -> None:
    assert speed_lines(SpeedPlan("none", "Nobody has counted.", "", (), ())) == ["no number. Nobody has counted."]
    assert "  speed       no number. Nothing was measured.\n" in report(example_plan(), FindingCounts(), None)


def test_the_document_cites_the_records_and_says_what_they_are() -> None:
    document = render_plan_document(example_plan(speed=SPEED), [], []).text
    assert "`topic/one`, `topic/two`: they are no proof of it" in document
    assert "records of a\\_model. One session: 1 GB a token." in document
    assert "with 6 sessions together 450" in document
    bare = render_plan_document(example_plan(), [], []).text
    assert "- no number. Nothing was measured.\n" in bare
    assert "no proof" not in bare
