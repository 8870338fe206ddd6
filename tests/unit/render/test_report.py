"""The report: its bar adds up, whatever the shares are."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.plan.core import DeployPlan
from compiler.plan.memory import Interval, MemoryPart, MemoryPlan
from compiler.render.report import BAR_WIDTH, FindingCounts, interval_text, memory_lines, price_text, report
from tests.unit.render.plans import example_memory, example_plan

PARTS = {"weights": 22.0, "activation": 2.0, "non_torch": 0.5, "cuda_graphs": 0.5, "kv_cache": 15.0, "cuda_context": 0.4, "outside_budget": 0.6, "free": 4.0}


def memory(parts: dict[str, float], **changes: object) -> MemoryPlan:
    rows = tuple(MemoryPart(name, size, "") for name, size in parts.items())
    return dataclasses.replace(example_memory(), parts=rows, **changes)  # type: ignore[arg-type]


def bar(lines: list[str]) -> str:
    return lines[1].strip().strip("|")


def test_shares_are_drawn_in_proportion() -> None:
    drawn = bar(memory_lines(memory(PARTS)))
    assert drawn == "█" * 29 + "▓" * 3 + "▒" * 3 + "░" * 20 + "·" * 5


def test_the_legend_names_sizes_and_the_interval() -> None:
    text = "\n".join(memory_lines(memory(PARTS, kv_gib=Interval(14.0, 15.0, 16.5)), ascii_only=True))
    assert text.isascii()
    for part in ("W weights 22.00", "A activations 2.00", "G graphs and runtime 2.00", "K KV cache 15.00 (14.00 to 16.50)", ". free 4.00 GiB"):
        assert part in text
    assert "used by others" not in text


def test_what_does_not_fit_says_by_how_much() -> None:
    lines = memory_lines(memory({**PARTS, "free": -3.0}, verdict="refused", shortfall_gib=2.5, longest_context=131072))
    assert len(bar(lines)) == BAR_WIDTH and "·" not in bar(lines)
    assert lines[-1].strip() == "short by 2.50 GiB; the longest window that fits is 131,072 tokens"


@given(st.dictionaries(st.sampled_from([*PARTS, "something new"]), st.floats(-100, 100), max_size=9))
def test_the_bar_always_has_its_width(parts: dict[str, float]) -> None:
    assert len(bar(memory_lines(memory(parts)))) == BAR_WIDTH


def test_the_report_is_complete_and_stable() -> None:
    priced = dataclasses.replace(example_plan().deploy, price_usd_h=0.88, price_date="2026-08-23")
    plan = example_plan(deploy=priced)
    text = report(plan, FindingCounts(0, 2, 1), "build/example")
    for part in ("example: An example.", "2 x NVIDIA A40", "262,144 tokens", "$0.88 an hour, $21.12 a day (read 2026-08-23)", "2 warnings, 1 note", "build/example"):
        assert part in text
    assert text == report(plan, FindingCounts(0, 2, 1), "build/example")
    assert "bundle" not in report(plan, FindingCounts(), None)


@pytest.mark.parametrize(("counts", "said"), [(FindingCounts(), "none"), (FindingCounts(1, 1, 2), "1 error, 1 warning, 2 notes")])
def test_findings_are_counted_in_words(counts: FindingCounts, said: str) -> None:
    assert str(counts) == said


def test_prices_that_are_not_there() -> None:
    own: DeployPlan = dataclasses.replace(example_plan().deploy, provider="local")
    assert price_text(example_plan()) == "not known"
    assert price_text(example_plan(deploy=own)) == "own machine"


def test_an_interval_without_width_is_one_number() -> None:
    assert interval_text(Interval(5, 5, 5)) == "5"
    assert interval_text(Interval(1000, 2000, 3000)) == "2,000 (1,000 to 3,000)"
