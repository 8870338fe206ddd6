"""`explain --log`: the spec line to change, exit codes, JSON."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from compiler.deploy.explainer import fingerprints
from compiler.explaining_log import KNOWN, UNKNOWN, UNREADABLE, print_log, spec_line
from compiler.load import SpecStore, load_specset
from compiler.resolve import resolve_plan
from compiler.schema import EngineSettings, HardwareSpec, ModelSpec, ProfileSpec
from tests.support import SPECS

STORE = SpecStore([SPECS])
SPECSET = load_specset(STORE, "nemotron-ada")[0]
assert SPECSET is not None
OOM = "ValueError: To serve at least one request with the models's max seq len (262144), (16.00 GiB KV cache is needed, which is larger"


def ran(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str], *, profile: bool = True, as_json: bool = False) -> tuple[int, str]:
    file = tmp_path / "log"
    file.write_text(text)
    code = print_log(str(file), SPECSET if profile else None, STORE if profile else None, as_json=as_json)
    return code, capsys.readouterr().out


def test_the_line_to_change_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = ran(tmp_path, f"INFO hello\n{OOM}\n", capsys)
    assert code == KNOWN
    assert "cause: one whole window does not fit" in out and "line 2: ValueError" in out and "code: MEM001" in out
    number = next(n for n, line in enumerate((SPECS / "profiles/nemotron-ada.yaml").read_text().splitlines(), 1) if "max_model_len" in line)
    assert f"profiles/nemotron-ada.yaml:{number}: max_model_len:" in out


def test_a_value_of_another_spec_is_found_there(tmp_path: Path) -> None:
    assert SPECSET is not None
    plan = resolve_plan(SPECSET)
    line = spec_line("settings.enable_auto_tool_choice", SPECSET, plan, STORE)
    assert line.file.endswith("models/nemotron-nvfp4.yaml") and line.line and "enable_auto_tool_choice" in line.text
    repo = spec_line("model:checkpoint.repo", SPECSET, plan, STORE)
    assert repo.file.endswith("models/nemotron-nvfp4.yaml") and "repo" in repo.text
    absent = spec_line("kv_store", SPECSET, plan, STORE)
    assert absent.line is None and absent.file.endswith("profiles/nemotron-ada.yaml")


def test_json_holds_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = ran(tmp_path, OOM, capsys, as_json=True)
    found: dict[str, Any] = json.loads(out)
    assert code == KNOWN and found["ok"] and found["known"]
    assert found["causes"][0]["code"] == "MEM001" and found["causes"][0]["spec_lines"][0]["route"] == "settings.max_model_len"


def test_without_a_profile_routes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "change: settings.max_model_len," in ran(tmp_path, OOM, capsys, profile=False)[1]


def test_unknown_stays_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = ran(tmp_path, "ValueError: the table is odd", capsys)
    assert code == UNKNOWN and "nothing is guessed" in out and "the table is odd" in out
    assert ran(tmp_path, "", capsys)[0] == UNKNOWN


def test_standard_input_and_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OOM.encode() + b"\xff\xfe")))
    assert print_log("-", None, None, as_json=False) == KNOWN
    assert print_log("/nowhere/at/all", None, None, as_json=False) == UNREADABLE
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("route", sorted({route for f in fingerprints() for route in f.change}))
def test_every_route_of_the_data_is_one_of_the_schemas(route: str) -> None:
    kinds: dict[str, Any] = {"model": ModelSpec, "hardware": HardwareSpec, "": ProfileSpec}
    head, _, rest = route.rpartition(":")
    first, *others = (rest or route).split(".")
    assert first in kinds[head].model_fields
    if first == "settings" and others:
        assert others[0] in EngineSettings.model_fields
    elif others and first not in ("env", "engine_args"):
        annotation = kinds[head].model_fields[first].annotation
        models = [m for m in (annotation, *getattr(annotation, "__args__", ())) if hasattr(m, "model_fields")]
        assert any(others[0] in m.model_fields for m in models), route
