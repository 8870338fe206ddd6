"""Records are found, compared without more certainty than they have, and drawn as the same bytes each time."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from compiler.evidence.comparing import compared
from compiler.evidence.plots import drawn, per_million, plots, price_of, prices
from compiler.evidence.records import Entry, Wanted, citing, entries, entry_of, nearest
from compiler.load import SpecStore
from compiler.load.validate import validated
from compiler.schema import EvidenceSpec, Measurement
from tests.support import SPECS

STORE = SpecStore([SPECS])
KNOWN = entries(STORE)


def entry(name: str = "a", **changes: Any) -> Entry:
    data = {
        "id": name,
        "date": "2026-08-23",
        "metric": "decode_tok_s_solo",
        "value": 100.0,
        "unit": "tok/s",
        "session": "S",
        "source": "Test.",
    } | changes
    return Entry("t", Measurement.model_validate(data))


def shipped(name: str) -> Entry:
    found = entry_of(KNOWN, name)
    assert found is not None
    return found


def test_every_record_of_every_topic_is_there_once() -> None:
    assert len(KNOWN) == sum(text.count("\n  - id: ") for text in (path.read_text() for path in (SPECS / "evidence").glob("*.yaml")))
    assert len({e.record.id for e in KNOWN}) == len(KNOWN)


@pytest.mark.parametrize(("wanted", "ids"), [
    (Wanted(model="nemotron", hardware="rtx-6000-ada", metric="kv_tokens"), {"nemotron-ada-align-kv", "nemotron-ada-all-kv"}),
    (Wanted(metric="kv_tokens", verdict="rejected", topic="flash-next-capacity"), {"fn-kv-bytes-17g", "fn-mtp-best-case-kv"}),
    (Wanted(session="S-PRO5000-0828", metric="decode"), {"pro5000-qwen38-nvfp4-mtp3-solo"}), (Wanted(model="RedHat"), set()), (Wanted(topic="nothing"), set()),
])  # fmt: skip
def test_filters_add_up(wanted: Wanted, ids: set[str]) -> None:
    assert {e.record.id for e in KNOWN if wanted.fits(e)} == ids


@pytest.mark.parametrize(("date", "since", "fits"), [
    ("2026-08-23", "2026", True), ("2026-08-23", "2026-08-24", False), ("2026-08-23", "2026-08-23", True), ("2026-08", "2026-08-23", True), ("2026-07", "2026-08-01", False), ("2026-09", "2026-08-31", True),
])  # fmt: skip
def test_since(date: str, since: str, fits: bool) -> None:
    assert Wanted(since=since).fits(entry(date=date)) is fits


def test_references_and_near_misses() -> None:
    assert shipped("nemotron-ada/nemotron-ada-align-kv") is shipped("nemotron-ada-align-kv")
    assert entry_of(KNOWN, "none") is None
    assert "nemotron-ada/nemotron-ada-align-kv" in nearest(KNOWN, "nemotron-ada-allign-kv")


def test_who_cites_a_record() -> None:
    assert "specs/models/nemotron-nvfp4.yaml#engine.mamba_cache_mode.evidence[0]" in citing(STORE, "nemotron-ada/nemotron-ada-align-kv")
    assert citing(STORE, "nothing/at-all") == []


def test_one_run_each_of_one_session() -> None:
    found = compared(shipped("nemotron-ada-align-solo"), shipped("nemotron-ada-all-solo"))
    assert (found.verdict, found.interval, found.differing) == ("one run each", None, {"settings.mamba_cache_mode": ("align", "all")})
    assert found.difference == pytest.approx(1.4) and found.percent == pytest.approx(0.671, abs=0.001)
    assert found.has_verdict


def test_two_sessions_have_no_verdict_unless_asked() -> None:
    a, b = shipped("choice-ada-solo-85k"), shipped("nemotron-a100-solo")
    found = compared(a, b)
    assert (found.verdict, found.has_verdict) == ("across sessions", False)
    asked = compared(a, b, across_sessions=True)
    assert asked.verdict == "one run each" and any("two sessions" in caution for caution in asked.cautions)
    assert compared(entry(session=None), entry(session=None)).verdict == "across sessions"


def test_what_is_not_comparable() -> None:
    assert "kv_tokens in tokens" in compared(shipped("nemotron-ada-align-kv"), shipped("nemotron-ada-align-solo")).cautions[0]
    assert compared(entry(), entry(unit="s")).verdict == "not comparable"
    assert compared(entry(value="ignored"), entry()).verdict == "not comparable"


@pytest.mark.parametrize(("a", "b", "verdict"), [
    ((100, 101, 99, 100), (90, 91, 89, 90), "higher"), ((90, 91, 89, 90), (100, 101, 99, 100), "lower"), ((100, 110, 90), (98, 108, 88), "no difference"), ((5, 5), (5, 5), "no difference"), ((6, 6), (5, 5), "higher"),
])  # fmt: skip
def test_repeats_give_an_interval(a: tuple[float, ...], b: tuple[float, ...], verdict: str) -> None:
    found = compared(entry(repeats=a), entry("b", repeats=b))
    assert found.verdict == verdict
    assert found.interval is not None and found.difference is not None
    assert found.interval[0] <= found.difference <= found.interval[1]


def test_the_interval_is_welchs() -> None:
    found = compared(entry(repeats=(1, 2, 3)), entry("b", repeats=(4, 6, 8)))
    assert found.interval is not None  # By hand: variances 1 and 4, 2.94 degrees of freedom count as 2, where the quantile is 4.303.
    half = 4.303 * (1 / 3 + 4 / 3) ** 0.5
    assert found.interval == pytest.approx((-4 - half, -4 + half))


def test_the_interval_holds_the_truth_in_nineteen_of_twenty_draws() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(400):
        x, y = ([draw.gauss(mean, spread) for _ in range(count)] for mean, spread, count in ((100, 5, 4), (97, 9, 6)))
        found = compared(entry(repeats=tuple(x)), entry("b", repeats=tuple(y)))
        assert found.interval is not None
        held += found.interval[0] <= 3 <= found.interval[1]
    assert 0.92 <= held / 400 <= 0.99


def test_ranges_bound_a_difference() -> None:
    low = entry(value="73-83", columns={"value_low": 73, "value_high": 83})
    assert compared(low, entry("b", value=100)).verdict == "lower"
    assert compared(low, entry("b", value=80)).verdict == "no difference"
    assert compared(low, entry("b", value=80)).interval == (-7, 3)


def test_cautions_name_what_moved_together_and_what_is_superseded() -> None:
    a = entry(settings={"x": 1, "y": 2}, caveat="Rounded", verdict="superseded", superseded_by="c", hardware="a40")
    found = compared(a, entry("b", settings={"x": 2}, hardware="l40s"))
    assert found.cautions == (
        "2 settings differ at once (x, y): the difference belongs to all of them together",
        "the hardware is not the same",
        "t/a is superseded by c",
        "a: Rounded",
    )


@pytest.mark.parametrize("changes", [{"value": 5}, {"value": None, "repeats": (1.0, 2.0)}])
def test_a_number_without_a_unit_is_refused(changes: dict[str, Any]) -> None:
    data = {"id": "a", "date": "2026-08", "metric": "m", "source": "Test."} | changes
    problems = validated(Measurement, "specs/evidence/x.yaml", data)[1]
    assert [d.code for d in problems] == ["SPC013"] and "needs its `unit`" in problems[0].what
    assert validated(Measurement, "x", data | {"unit": "s"})[1] == []


@pytest.mark.parametrize(("changes", "words"), [
    ({"superseded_by": "b", "verdict": "kept"}, "beside the verdict kept"), ({"superseded_by": "b"}, "beside the verdict None"), ({"baseline": "a"}, "its own baseline"),
])  # fmt: skip
def test_contradictory_records_are_refused(changes: dict[str, Any], words: str) -> None:
    data = {"id": "a", "date": "2026-08", "metric": "m", "value": 1, "unit": "s", "source": "Test."}
    assert words in validated(Measurement, "x", data | changes)[1][0].what
    twice = {"kind": "evidence", "topic": "x", "summary": "X.", "records": (data, data)}
    assert "two records have the id a" in validated(EvidenceSpec, "x", twice)[1][0].what


def test_a_value_that_is_no_number_is_refused_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/x.yaml").write_text("kind: evidence\ntopic: x\nsummary: X.\nrecords:\n  - {id: a, date: '2026-08', metric: m, value: .nan, unit: s, source: Test.}\n")
    store = SpecStore([tmp_path])
    found = store.spec("evidence", "x")[1]
    assert [d.code for d in found] == ["SPC006"]


def test_shipped_records_refer_only_to_records() -> None:
    ids = {e.record.id for e in KNOWN}
    assert [e.id for e in KNOWN if {e.record.baseline, e.record.superseded_by} - {None} - ids] == []


def test_plots_are_whole_documents_and_the_same_twice() -> None:
    once, again = plots(STORE), plots(SpecStore([SPECS]))
    assert list(once) == ["decode-by-context", "aggregate-by-sessions", "kv-tokens-by-dtype", "price-per-million"]
    assert once == again
    for text in once.values():
        root = ET.fromstring(text)
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        spots = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("{http://www.w3.org/2000/svg}circle")]
        assert all(0 <= x <= width and 0 <= y <= height for x, y in spots)
        assert "nan" not in text and text.endswith("</svg>\n")


def test_the_dates_of_the_data_are_in_the_drawing() -> None:
    text = plots(STORE)["decode-by-context"]
    assert "ornith-nvfp4 on 1 x rtx-6000-ada" in text
    line = re.search(r'points="([^"]+)" fill="none" stroke="#[0-9a-f]+" stroke-width="2"/>', text)
    assert line is not None and len(line[1].split()) == 5  # 3k, 32k, 114k, 282k and a million.


def test_names_are_escaped_and_nothing_to_draw_draws_nothing() -> None:
    assert drawn([], {}) == {}
    odd = [entry(n, model="<&>", hardware="x", gpus=1, value=v, settings={"context": c}) for n, v, c in (("a", 5.0, 10), ("b", 4.0, 1000))]
    assert "&lt;&amp;&gt;" in drawn(odd, {})["decode-by-context"]


def test_price_of_a_million_tokens() -> None:
    assert per_million(0.88, 1379.8) == pytest.approx(0.1772, abs=0.0001)
    found = prices(STORE)
    assert found["rtx-6000-ada"] == 0.74 and found["2xa40"] == 0.88
    assert price_of(shipped("a40-ornith-bf16-agg-32").record, found) == 0.88
    assert price_of(shipped("nemotron-h200-solo").record, found) == 3.59
    assert price_of(entry(hardware="l4", gpus=8).record, found) is None
