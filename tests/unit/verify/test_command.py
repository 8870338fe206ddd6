"""`podwright verify` from end to end, with recorded answers in the place of an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.verify.command import _short, rule_of
from tests.cli.command import podwright
from tests.unit.verify.recorded import fake_python, recorded_row

pytestmark = pytest.mark.living

REFUSAL = "ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this configuration. Reason: ['kv_cache_dtype not supported']"


def test_an_accepted_profile_is_shown_with_every_value(tmp_path: Path) -> None:
    ended = podwright(
        "verify", "nemotron-ada", "--config-from", "facts", "--engine-python", fake_python(tmp_path, [recorded_row("nemotron-ada")])
    )
    assert ended.code == 0, ended.err
    assert "nemotron-ada: vLLM 0.27.1 on 1 x NVIDIA RTX 6000 Ada Generation accepts it" in ended.out
    assert "as planned: 17 of 17 values" in ended.out and "MARLIN" in ended.out
    job = json.loads((tmp_path / "asked.json").read_text())[0]
    assert job["id"] == "nemotron-ada" and job["build"] is True and "--served-model-name" in job["argv"]
    assert json.loads((tmp_path / "card.json").read_text())["capability"] == "8.9"


def test_a_difference_is_a_fault_of_the_plan(tmp_path: Path) -> None:
    row = recorded_row("nemotron-ada")
    row["resolved"]["mamba_cache_mode"] = "all"
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-python", fake_python(tmp_path, [row]))
    assert ended.code == 1 and "fault of the plan: mamba_cache_mode is all, planned align" in ended.out


def test_a_refusal_is_told_in_the_engines_words_with_our_rule(tmp_path: Path) -> None:
    row = {"id": "nemotron-ada", "accepted": False, "stage": "model", "error": REFUSAL, "seconds": 3}
    python = fake_python(tmp_path, [row])
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-python", python)
    assert ended.code == 1 and "refuses it (model)" in ended.out and "kv_cache_dtype not supported" in ended.out
    as_json = json.loads(podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-python", python, "--json").out)
    assert as_json["ok"] is False and as_json["engines"][0]["accepted"] is False
    assert as_json["engines"][0]["rule"] in ended.out and as_json["engines"][0]["rule"]


def test_a_refusal_that_no_rule_knows_says_so(tmp_path: Path) -> None:
    row = {"id": "nemotron-ada", "accepted": False, "stage": "model", "error": "Odd:\n  nobody has seen this", "seconds": 3}
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-python", fake_python(tmp_path, [row]))
    assert ended.code == 1 and "none of podwright's rules knows this refusal" in ended.out
    assert "  engine: Odd: nobody has seen this\n" in ended.out


def test_of_several_rules_the_one_that_refuses_already_is_meant() -> None:
    assert rule_of(REFUSAL)[0] == "KVC001"
    assert rule_of(REFUSAL, ["ENG001"])[0] == "KVC001"
    assert rule_of(REFUSAL, ["ENG001", "KVC007"])[0] == "KVC007"


def test_what_could_not_be_judged_is_no_refusal(tmp_path: Path) -> None:
    row = {"id": "nemotron-ada", "accepted": False, "stage": "none", "error": "the engine gave no answer in time", "seconds": 300}
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-python", fake_python(tmp_path, [row]))
    assert ended.code == 4 and "could not be asked to the end" in ended.out and "judge: the engine gave no answer in time" in ended.out
    assert "refuses" not in ended.out and "rule:" not in ended.out


def test_json_holds_everything(tmp_path: Path) -> None:
    ended = podwright(
        "verify",
        "nemotron-ada",
        "--config-from",
        "facts",
        "--json",
        "--engine-python",
        fake_python(tmp_path, [recorded_row("nemotron-ada")]),
    )
    found = json.loads(ended.out)
    assert ended.code == 0 and ended.err == ""
    assert found["ok"] is True and found["release"] == "0.27.1" and found["card"]["name"] == "NVIDIA RTX 6000 Ada Generation"
    assert found["engines"][0]["config"]["source"] == "facts" and found["engines"][0]["ranks"][0]["parameter_bytes"] > 10**10
    assert {row["verdict"] for row in found["engines"][0]["rows"]} == {"same", "told"}


def test_another_release_is_not_asked(tmp_path: Path) -> None:
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-python", fake_python(tmp_path, [], release="0.26.0"))
    assert ended.code == 4 and "has vllm 0.26.0, and the profile asks for 0.27.1" in ended.err


def test_without_a_release_the_ways_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    monkeypatch.setenv("PODWRIGHT_REAL_PARTS_DIR", str(tmp_path / "none"))
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--no-install")
    assert ended.code == 4 and "no vLLM 0.27.1 at hand" in ended.err and all(way in ended.err for way in ("--engine-python", "--engine-image", "Python 3.12"))
    found = json.loads(podwright("verify", "nemotron-ada", "--no-install", "--json").out)
    assert found["ok"] is False and found["failure"] == "NoEngine"


def test_an_engine_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    ended = podwright("verify", "nemotron-ada", "--config-from", "facts", "--engine-python", fake_python(tmp_path, []))
    assert ended.code == 4 and "before it answered" in ended.err and "last words" in ended.err


def test_a_folders_config_goes_to_the_engine_with_the_pods_repairs(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    config = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "quantization_config": {"ignore": ["lm_head"]}}
    (folder / "config.json").write_text(json.dumps(config))
    ended = podwright(
        "verify", "nemotron-ada", "--config", folder, "--engine-python", fake_python(tmp_path, [recorded_row("nemotron-ada")])
    )
    assert ended.code == 0 and str(folder / "config.json") in ended.out


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "is not JSON"), ("[]", "names no architectures"), ('{"model_type": "x"}', "names no architectures"), (None, "cannot be read")],
)
def test_a_folder_without_a_config_is_one_message(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    ended = podwright("verify", "nemotron-ada", "--config", tmp_path, "--engine-python", fake_python(tmp_path, []))
    assert ended.code == 4 and said in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("profile", "said"), [("flashnext-blackwell", "no public shape of Qwen4Exp"), ("tiny-cpu", "podwright local tiny-cpu")]
)
def test_what_cannot_be_asked_says_what_is_missing(tmp_path: Path, profile: str, said: str) -> None:
    ended = podwright("verify", profile, "--config-from", "facts", "--engine-python", fake_python(tmp_path, []))
    assert ended.code == 4 and said in ended.err


def test_two_sources_of_a_config_are_wrong_usage(tmp_path: Path) -> None:
    assert podwright("verify", "nemotron-ada", "--config", tmp_path, "--config-from", "hub").code == 2
    assert podwright("verify", "no-such-profile").code == 1


@pytest.mark.parametrize("value, text", [(6_841_906.4, "6,841,906"), (6_841_906, "6,841,906"), (17.583, "17.583"), (0.85, "0.85"), (None, "-"), (True, "True")])
def test_numbers_of_plan_and_engine_are_written_alike(value: object, text: str) -> None:
    assert _short(value) == text
