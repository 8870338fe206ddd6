"""The benchmark's own parts: it fails loudly, generates specs that build, and writes between the markers only."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.load import SpecStore, load_specset
from tests.bench import run, runtime
from tests.bench.run import BEGIN, END, HEAD, SIZES, Timing, generated, page, table, timed
from tests.support import SPECS


def test_generated_profiles_load(tmp_path: Path) -> None:
    generated(tmp_path, 20)
    store = SpecStore([tmp_path, SPECS])
    assert [load_specset(store, f"generated-{n:04}")[1] for n in range(20)] == [[]] * 20


def test_timing_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "BYTECODE", tmp_path)
    timing = timed("x", "pass", [], 1)
    assert 0 < timing.cpu_s <= 5
    assert timing.peak_bytes > 1 << 20
    with pytest.raises(RuntimeError, match="exit 3"):
        timed("x", "import sys; sys.exit(3)", [], 1)


def test_table_and_page() -> None:
    rows = [Timing(str(n), float(n), float(n), n << 20) for n in (1, 2, 3, *SIZES)]
    figures = table(rows, 5)
    assert "| 3 | 3.000 | 3.000 | 1.50 | 3 |" in figures
    assert "1.00 times what linear would be" in figures
    assert page(page(HEAD + "tail", figures), "new\n") == HEAD.replace(f"{BEGIN}{END}", f"{BEGIN}new\n{END}") + "tail"
    with pytest.raises(ValueError):
        page("no markers", figures)


def test_the_runtimes_figures_have_a_place_of_their_own() -> None:
    figures = [runtime.Figure("idle", 0.2, "% of a core", 0.5), runtime.Figure("start", 4.0, "%", 3.0), runtime.Figure("asked", 4.0, "")]
    assert [f.holds for f in figures] == [True, False, True]
    assert str(figures[1]).endswith("MISSED") and not str(figures[0]).endswith("MISSED")
    text = runtime.table(figures)
    assert "| idle | 0.20 % of a core | 0.5 % of a core |" in text and "| asked | 4.00  |  |" in text
    once = runtime.page(HEAD, text)
    assert once.startswith(HEAD.rstrip()) and once.count(runtime.BEGIN) == 1
    again = runtime.page(once, "new\n")
    assert f"{runtime.BEGIN}new\n{runtime.END}" in again and "idle" not in again
    assert runtime.page(page(again, "x\n"), "new\n") == page(again, "x\n")
