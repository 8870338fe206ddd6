"""`podwright evidence`: lists, shows, compares and draws; JSON everywhere, and fixed exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.command_support import Exit
from tests.cli.command import podwright

pytestmark = pytest.mark.living


def test_list_with_filters() -> None:
    ended = podwright("evidence", "--model", "nemotron", "--hardware", "ada", "--metric", "kv_tokens")
    assert ended.code == Exit.OK and ended.err == "2 measurements\n"
    assert [line.split()[0] for line in ended.out.splitlines()[1:]] == [
        "nemotron-ada/nemotron-ada-align-kv",
        "nemotron-ada/nemotron-ada-all-kv",
    ]
    found = json.loads(podwright("evidence", "--verdict", "superseded", "--json").out)
    assert len(found) == 48 and not any(record["citable"] for record in found)
    assert podwright("evidence", "--model", "no-such-model").err == "0 measurements\n"


def test_show() -> None:
    ended = podwright("evidence", "show", "fn-kv-bytes-17g")
    assert ended.code == Exit.OK
    assert "  value         700087\n" in ended.out and "kv_cache_memory_bytes" in ended.out
    assert "cited by      specs/profiles/flashnext-blackwell.yaml#settings.kv_cache_memory_bytes.evidence" in ended.out
    assert "superseded: no choice may rest on it" in podwright("evidence", "show", "bridge-cache-before").out
    assert json.loads(podwright("evidence", "show", "bridge/bridge-cache-before", "--json").out)["cited_by"] == []


def test_compare() -> None:
    ended = podwright("evidence", "compare", "nemotron-ada-align-solo", "nemotron-ada-all-solo")
    assert ended.code == Exit.OK
    assert "A - B  +1.4 tok/s (+0.7 %)\nOne run each" in ended.out and "settings.mamba_cache_mode: align against all" in ended.out
    assert json.loads(podwright("evidence", "compare", "a40-ornith-dspark-agg-1", "--json").out)["b"] == "a40-ornith/a40-ornith-bf16-agg-1"
    across = podwright("evidence", "compare", "choice-ada-solo-85k", "nemotron-a100-solo")
    assert across.code == Exit.REFUSED and "No verdict: they are of two sessions" in across.out
    assert podwright("evidence", "compare", "choice-ada-solo-85k", "nemotron-a100-solo", "--across-sessions").code == Exit.OK
    assert podwright("evidence", "compare", "nemotron-ada-align-kv", "nemotron-ada-all-solo").code == Exit.REFUSED


RECORD = "  - {{id: {id}, date: '2026-08-23', metric: m, value: 10, unit: s, repeats: [{runs}], session: S, source: Test.}}\n"


def test_repeats_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    text = (
        "kind: evidence\ntopic: mine\nsummary: Mine.\nrecords:\n"
        + RECORD.format(id="a", runs="10.0, 10.2, 9.9")
        + RECORD.format(id="b", runs="10.1, 10.0, 9.8")
    )
    (tmp_path / "evidence/mine.yaml").write_text(text)
    ended = podwright("evidence", "compare", "mine/a", "mine/b", "--specs", tmp_path)
    assert ended.code == Exit.OK and "No difference." in ended.out and "95 % interval" in ended.out


@pytest.mark.parametrize(("args", "words"), [
    (("show", "nemotron-ada-allign-kv"), "Did you mean"), (("compare", "fn-kv-bytes-17g", "nothing-like-it"), "no measurement"), (("compare", "nemotron-a100-solo"), "names no baseline"),
    (("--since", "yesterday"), "YYYY"), (("--verdict", "good"), "one of kept"), (("plot", "nothing"), "no plot 'nothing'"), (("--model", "x", "show", "fn-kv-bytes-17g"), "behind the subcommand"),
])  # fmt: skip
def test_wrong_usage(args: tuple[str, ...], words: str) -> None:
    ended = podwright("evidence", *args)
    assert ended.code == Exit.USAGE
    assert words in " ".join(ended.err.split())


def test_plot_writes_what_is_asked_for(tmp_path: Path) -> None:
    assert podwright("evidence", "plot", "--out", tmp_path / "a").code == Exit.OK
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [
        "aggregate-by-sessions.svg",
        "decode-by-context.svg",
        "kv-tokens-by-dtype.svg",
        "price-per-million.svg",
    ]
    made = json.loads(podwright("evidence", "plot", "price-per-million", "--out", tmp_path / "b", "--json").out)
    assert made == [str(tmp_path / "b/price-per-million.svg")]
    assert (tmp_path / "b/price-per-million.svg").read_bytes() == (tmp_path / "a/price-per-million.svg").read_bytes()


def test_plots_of_one_set_up_hold_its_records_alone(tmp_path: Path) -> None:
    made = json.loads(podwright("evidence", "plot", "--model", "ornith", "--hardware", "a40", "--out", tmp_path, "--json").out)
    assert str(tmp_path / "aggregate-by-sessions.svg") in made
    text = (tmp_path / "aggregate-by-sessions.svg").read_text("utf-8")
    assert "ornith" in text and "rtx" not in text
    assert podwright("evidence", "plot", "price-per-million", "--model", "no-such", "--out", tmp_path).code == Exit.USAGE
