"""Where a model fits."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from compiler.load import SpecStore
from compiler.plan.memory import Interval
from compiler.planning.fitting import Fit, fits_of_model
from compiler.planning.printing import print_fits
from tests.support import SPECS
from tests.unit.planning.test_changes import SHIPPED, after

pytestmark = pytest.mark.living


def fits(model: str) -> dict[str, Fit]:
    """The rows by hardware."""
    rows, problems = fits_of_model(SHIPPED, model)
    assert not problems
    return {row.hardware: row for row in rows}


def test_every_hardware_has_a_row_those_that_fit_first_and_the_cheapest_of_them_at_the_top() -> None:
    rows = fits_of_model(SHIPPED, "nemotron-nvfp4")[0]
    assert sorted(row.hardware for row in rows) == SHIPPED.names("hardware")
    assert [row.fits for row in rows] == sorted((row.fits for row in rows), reverse=True)
    prices = [row.usd_per_hour for row in rows if row.fits and row.usd_per_hour is not None]
    assert prices == sorted(prices)
    assert rows[0].hardware == "rtx-6000-ada"


def test_a_shipped_profile_gives_its_settings() -> None:
    row, plan = fits("nemotron-nvfp4")["rtx-6000-ada"], after("nemotron-ada").plan
    assert (row.profile, row.engine, row.context) == ("nemotron-ada", "vllm-0.27.1", 1_048_576)
    assert (row.windows, row.usd_per_hour) == (plan.memory.concurrency, 0.74)


def test_a_gentler_setting_is_tried_and_told() -> None:
    row = fits("qwen38-27b-awq")["2x4090"]
    assert len(row.changes) == 1 and row.changes[0].startswith("engine.")
    assert row.fits


def test_what_does_not_fit_says_why() -> None:
    rows = fits("qwen38-27b-nvfp4")
    assert rows["a40"].fits, "the engine multiplies its weights by Marlin there: QNT001 only warns"
    assert not rows["l4"].fits and "MEM001" in rows["l4"].why
    assert not rows["cpu"].fits and "MEM001" in rows["cpu"].why


def test_an_image_of_its_own_and_an_engine_that_knows_it() -> None:
    rows = fits("flash-next")
    assert {name for name, row in rows.items() if row.fits} == {"rtx-pro-6000", "h200-sxm", "b200"}
    assert rows["2xa40"].engine == "vllm-flash-next"
    assert "MEM001" in rows["2xa40"].why


def test_a_hub_repository_names_its_spec() -> None:
    assert fits("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4") == fits("nemotron-nvfp4")


def test_an_unknown_model_is_refused_with_what_is_missing() -> None:
    rows, problems = fits_of_model(SHIPPED, "nemotron-nvfp5")
    assert (rows, [d.code for d in problems]) == ([], ["SPC020"])
    assert "`nemotron-nvfp4`" in problems[0].fix
    assert "KV heads" in problems[0].fix


def test_an_unknown_repository_is_answered_with_the_command_that_reads_it() -> None:
    _, problems = fits_of_model(SHIPPED, "Qwen/Qwen3-8B")
    assert problems[0].fix.startswith("`podwright new model Qwen/Qwen3-8B` ")
    assert "Did you mean" not in problems[0].fix


def test_a_model_without_its_layers_is_refused(tmp_path: Path) -> None:
    """An architecture that tells nothing of its cache is not planned on a guess."""
    folder = tmp_path / "models"
    folder.mkdir()
    lines = (SPECS / "models" / "qwen3-coder-awq.yaml").read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip() == "kv:")
    end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith("    "))
    (folder / "bare.yaml").write_text("\n".join(lines[:start] + lines[end:]), "utf-8")
    rows, problems = fits_of_model(SpecStore([tmp_path, SPECS]), "bare")
    assert not rows
    assert any("measured_kv" in d.what for d in problems)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns, shown", [(80, False), (119, False), (120, True), (200, True)])
def test_a_narrow_terminal_gets_fewer_columns(monkeypatch: pytest.MonkeyPatch, columns: int, shown: bool) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", out := _Terminal())
    row = Fit("rtx-4090", "1 x GeForce RTX 4090", "vllm-0.27.1", None, (), 20_560, Interval(1.0, 1.61, 1.89), None, None, "")
    print_fits("m", [row])
    assert ("GPUs" in out.getvalue(), "rtx-4090" in out.getvalue(), "20,560" in out.getvalue()) == (shown, True, True)
