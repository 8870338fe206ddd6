"""`podwright lint --fix`, `--command`, `--file`, and `podwright import`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.command_support import Exit
from tests.cli.command import podwright

pytestmark = pytest.mark.living

GOOD = "docker run vllm/vllm-openai:v0.27.1 cyankiwi/Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit --max-model-len 65536"


def test_a_command_without_a_fault() -> None:
    ended = podwright("lint", "--command", GOOD, "--hardware", "a40", "-v")
    assert ended.code == Exit.OK
    assert "vLLM 0.27.1, by the image's tag; model qwen3-coder-awq; card a40" in ended.out
    assert "not judged" not in ended.out


def test_a_command_with_faults() -> None:
    ended = podwright("lint", "--command", "vllm serve ORG/M --swap-space 4")
    assert ended.code == Exit.REFUSED
    assert "--command:1:18: ENG002 error:" in ended.err
    assert "not judged, whether it fits among them:" in ended.out


def test_json_says_what_was_judged() -> None:
    value = json.loads(podwright("lint", "--command", GOOD, "--json").out)
    (launch,) = value["launches"]
    assert (launch["release"], launch["model"], launch["hardware"]) == ("0.27.1", "qwen3-coder-awq", None)
    assert launch["judged"] > 50
    assert "QNT001" in launch["not_judged"]["card"]
    assert value["ok"] is True


def test_two_services_are_both_judged(tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text("services:\n  a: {image: vllm/vllm-openai:v0.27.1, command: --model ORG/A --nothing}\n  b: {image: vllm/vllm-openai:v0.27.1, command: --model ORG/B --nothing}\n")
    value = json.loads(podwright("lint", "--file", file, "--json").out)
    assert [launch["name"] for launch in value["launches"]] == ["a", "b"]
    assert [f["line"] for f in value["findings"] if f["code"] == "ENG001"] == [2, 3]
    ended = podwright("import", "--file", file, "--name", "mine", "--specs", tmp_path / "own")
    assert ended.code == Exit.USAGE
    assert "one of a, b" in ended.err
    assert not (tmp_path / "own").exists()
    assert podwright("import", "--file", file, "--service", "b", "--name", "mine", "--specs", tmp_path / "own").code == Exit.REFUSED
    assert "ORG/B" in (tmp_path / "own/models/mine-model.yaml").read_text("utf-8")


@pytest.mark.parametrize(
    "args",
    [
        ("lint", "nemotron-ada", "--command", "x"), ("lint", "--fix", "--command", "x"), ("lint", "--command", "x", "--file", "y"), ("lint", "--hardware", "a40"),
        ("lint", "--engine", "vllm-0.27.1"), ("lint", "--command", "x", "--hardware", "none"), ("lint", "--command", "x", "--engine", "none"),
        ("import", "--command", "vllm serve a/b"), ("import", "--name", "x"), ("import", "--command", "vllm serve a/b", "--name", "A b"),
        ("import", "--command", "vllm serve a/b", "--name", "x", "--service", "none"),
    ],
)  # fmt: skip
def test_wrong_usage(args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert podwright(*args).code == Exit.USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "code"), [("vllm serve 'a", "CMD002"), ("echo hello", "CMD003")])
def test_what_cannot_be_imported_writes_nothing(text: str, code: str, tmp_path: Path) -> None:
    ended = podwright("import", "--command", text, "--name", "mine", "--specs", tmp_path / "own", "--json")
    assert ended.code == Exit.REFUSED
    assert [f["code"] for f in json.loads(ended.out)["findings"]] == [code]
    assert not (tmp_path / "own").exists()


def test_import_then_lint_and_no_overwriting(tmp_path: Path) -> None:
    args = ("import", "--command", GOOD, "--name", "mine", "--hardware", "a40", "--specs", tmp_path / "own")
    ended = podwright(*args)
    assert ended.code == Exit.OK, ended.err
    assert podwright("lint", "mine", "--specs", tmp_path / "own").code == Exit.OK
    file = tmp_path / "own/profiles/mine.yaml"
    file.write_text(file.read_text("utf-8") + "# mine\n", "utf-8")
    assert podwright(*args).code == Exit.USAGE
    assert file.read_text("utf-8").endswith("# mine\n")
    assert podwright(*args, "--force").code == Exit.OK
    assert not file.read_text("utf-8").endswith("# mine\n")


def test_fix_shows_a_diff_and_ends(tmp_path: Path) -> None:
    file = tmp_path / "own/profiles/mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text('kind: profile\nsummary: x\nextends: nemotron-ada\nenv:\n  CUDA_HOME: ":/x"  # why\n  A: "1"\n', "utf-8")
    ended = podwright("lint", "mine", "--specs", tmp_path / "own", "--fix")
    assert ended.code == Exit.OK, ended.err
    assert '-  CUDA_HOME: ":/x"  # why' in ended.out
    assert "1 file changed" in ended.out
    value = json.loads(podwright("lint", "mine", "--specs", tmp_path / "own", "--fix", "--json").out)
    assert (value["ok"], value["fixed"]) == (True, [])


def test_a_shipped_profile_needs_no_fix() -> None:
    assert json.loads(podwright("lint", "nemotron-ada", "--fix", "--json").out)["fixed"] == []


@pytest.mark.parametrize("option, value, meant", [
    ("--hardware", "4090", "Did you mean 2x4090 or rtx-4090?"), ("--hardware", "rtx4090", "Did you mean rtx-4090?"),
    ("--engine", "0.27.1", "Did you mean vllm-0.27.1 or vllm-cpu-0.27.1?"), ("--hardware", "2xh100", "'2xh100'. Known: "),
])  # fmt: skip
def test_a_spec_that_does_not_exist_names_the_nearest(option: str, value: str, meant: str) -> None:
    ended = podwright("lint", "--command", "vllm serve ORG/M", option, value)
    said = " ".join(ended.err.split())
    assert ended.code == Exit.USAGE
    assert meant in said
    assert f"`podwright new {option[2:]} {value}` starts one" in said


def test_codes_of_rules_that_could_not_be_judged_come_with_verbose_only() -> None:
    assert "MEM001" not in podwright("lint", "--command", "vllm serve ORG/M").out
    assert "MEM001" in podwright("lint", "--command", "vllm serve ORG/M", "-v").out


def test_an_import_that_would_overwrite_names_the_option_that_does(tmp_path: Path) -> None:
    args = ("import", "--command", "vllm serve ORG/M", "--hardware", "rtx-4090", "--name", "mine", "--specs", tmp_path)
    first = podwright(*args)
    assert "`podwright new model ORG/M --as mine-model`" in " ".join(first.err.split())
    again = podwright(*args)
    assert (again.code, "--force overwrites" in again.err) == (Exit.USAGE, True)
