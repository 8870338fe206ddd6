"""Whole files as people keep them, to starts of an engine, findings and specs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from compiler.foreign.judge import judged
from compiler.foreign.reading import Read, read_command, read_file
from compiler.foreign.source import Piece, Span, texts
from compiler.foreign.specs import described
from compiler.foreign.variables import env_file_values, filled
from compiler.foreign.writing import imported
from compiler.load import SpecStore
from tests.support import ROOT, SPECS

CASES: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "cases" / "commands" / "files.yaml").read_text("utf-8"))


@functools.cache
def _store() -> SpecStore:
    return SpecStore([SPECS])


def _given(folder: Path, case: dict[str, Any]) -> Read:
    for name, text in case["given"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return read_file(folder / case["lint"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_file(tmp_path: Path, case: dict[str, Any]) -> None:
    read = _given(tmp_path, case)
    assert {launch.name: " ".join(texts(launch.words)) for launch in read.launches} == case.get("starts", {})
    for launch in read.launches:
        if launch.name in case.get("gpus", {}):
            assert launch.gpus == case["gpus"][launch.name]
        if launch.name in case.get("env", {}):
            assert {name: word.text for name, word in launch.env.items()} == case["env"][launch.name]
    found = list(dict.fromkeys([*read.problems, *(d for launch in read.launches for d in described(launch, _store()).problems)]))
    assert [d.code for d in found] == case.get("codes", [])
    for said in case.get("says", []):
        assert any(said in d.what for d in found), [d.what for d in found]


@pytest.mark.parametrize("case", [case for case in CASES if case.get("starts")], ids=lambda case: case["name"])
def test_each_start_is_judged_and_becomes_specs(tmp_path: Path, case: dict[str, Any]) -> None:
    for launch in _given(tmp_path, case).launches:
        known = described(launch, _store())
        assert judged(known).looked > 20
        files = imported(known, "mine").files
        profile = yaml.safe_load(files["profiles/mine.yaml"])
        assert profile["kind"] == "profile"


def test_a_finding_about_an_option_file_points_into_it(tmp_path: Path) -> None:
    (tmp_path / "engine.yaml").write_text("max-model-len: 8192\nswap-space: 4\n")
    (tmp_path / "start.sh").write_text("vllm serve ORG/M --config engine.yaml\n")
    (launch,) = read_file(tmp_path / "start.sh").launches
    (found,) = [d for d in judged(described(launch, _store())).diagnostics if d.code == "ENG002"]
    assert found.place.path == (tmp_path / "engine.yaml").as_posix()
    assert found.position is not None and (found.position.line, found.position.text) == (2, "swap-space: 4")


def test_a_finding_about_an_option_file_in_a_config_map_points_into_the_manifest(tmp_path: Path) -> None:
    case = next(case for case in CASES if case["name"].startswith("kubernetes, an option file and variables"))
    (launch,) = _given(tmp_path, case).launches
    (found,) = [d for d in judged(described(launch, _store())).diagnostics if d.code == "ENG001"]
    assert found.place.path == (tmp_path / "all.yaml").as_posix()
    assert found.position is not None and found.position.text.strip() == "no-such-option: 1"


def test_the_command_line_wins_over_the_option_file_without_a_finding(tmp_path: Path) -> None:
    (tmp_path / "engine.yaml").write_text("max-model-len: 8192\nmax-model-len: 4096\n")
    (tmp_path / "start.sh").write_text("vllm serve ORG/M --config engine.yaml --max-model-len 2048\n")
    (launch,) = read_file(tmp_path / "start.sh").launches
    known = described(launch, _store())
    assert known.arguments.options["max_model_len"].value == 2048 and known.problems == ()
    (tmp_path / "start.sh").write_text("vllm serve ORG/M --max-model-len 1024 --config engine.yaml --max-model-len 2048\n")
    (launch,) = read_file(tmp_path / "start.sh").launches
    assert [d.code for d in described(launch, _store()).problems] == ["CMD008"]


def test_a_pasted_command_reads_its_option_file_where_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engine.yaml").write_text("max-model-len: 8192\n")
    (launch,) = read_command("vllm serve ORG/M --config engine.yaml").launches
    assert texts(launch.words) == ["ORG/M", "--max-model-len", "8192"]
    read = read_command("vllm serve ORG/M --config $HOME/x.yaml")
    assert [d.code for d in read.problems] == ["CMD005"] and "its name hangs on HOME" in read.problems[0].what
    read = read_command("vllm serve ORG/M --config x.json")
    assert "x.json: it does not exist" in read.problems[0].what
    (tmp_path / "x.json").write_text("{}")
    assert [d.code for d in read_command("vllm serve ORG/M --config x.json").problems] == ["CMD007"]


def test_env_files_as_compose_reads_them() -> None:
    text = (
        'A=1 # one\nexport B = two words  \n# C=3\nD=\'$A # "x"\'\nE="a\\tb ${A}\nsecond"\nF\nG: yaml\nH=${NONE}\nI=${NONE:-i}\n=bad\nJ=\n'
    )
    found = env_file_values(text, {"F": "given"}, Span(3, 4))
    assert {name: word.text for name, word in found.items()} == {
        "A": "1", "B": "two words", "D": '$A # "x"', "E": "a\tb 1\nsecond", "F": "given", "G": "yaml", "H": "${NONE}", "I": "i", "J": "",
    }  # fmt: skip
    assert {name: word.unknown for name, word in found.items() if word.unknown} == {"H": ("NONE",)}
    assert all(word.span == Span(3, 4) for word in found.values())


def test_a_folder_without_an_engine_and_one_with_a_broken_file(tmp_path: Path) -> None:
    assert [d.code for d in read_file(tmp_path).problems] == ["CMD003"]
    (tmp_path / "a.yaml").write_text("services: [\n")
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: vllm/vllm-openai, args: [ORG/M]}]}\n")
    read = read_file(tmp_path)
    assert [d.code for d in read.problems] == ["CMD001"] and len(read.launches) == 1


@given(st.text(alphabet="${}:-?+=AB \n\"'#\\\\x", max_size=40))
def test_any_text_with_variables_is_read(text: str) -> None:
    word = filled(Piece(text, tuple(range(len(text)))), Span(0, len(text)), {"A": "x"}).word
    assert len(word.piece.text) == len(word.piece.offsets) and all(0 <= at < len(text) for at in word.piece.offsets)
    assert all(name != "A" for name in word.unknown)
    assert all(len(value.piece.text) == len(value.piece.offsets) for value in env_file_values(text, {"A": "x"}, Span(0, 1)).values())
