"""Rules over commands: the reported failures, silence where facts are missing, and no alarm that a profile would not raise."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.diagnostics import Severity, formatted
from compiler.foreign.judge import _OF_BUNDLES, _OF_PROFILES, FACTS, Judged, judged, not_judged
from compiler.foreign.reading import read_command, read_file
from compiler.foreign.specs import described
from compiler.lint.registry import rules
from compiler.lint.rule import Subject
from compiler.lint.runner import findings
from compiler.load import SpecStore
from tests.support import ROOT, SPECS, subject

STORE = SpecStore([SPECS])
REPORTS = yaml.safe_load((ROOT / "tests" / "cases" / "commands" / "failures.yaml").read_text("utf-8"))
CASES: list[dict[str, Any]] = REPORTS["cases"]
FOUND, MISSED = [c for c in CASES if c["found"]], [c for c in CASES if not c["found"]]
PROFILES = sorted(file.stem for file in (SPECS / "profiles").glob("*.yaml"))


def _judged(command: str, hardware: str | None = None, engine: str | None = None) -> Judged:
    read = read_command(command)
    (launch,) = read.launches
    return judged(described(launch, STORE, hardware, engine))


def _codes(command: str, hardware: str | None = None, engine: str | None = "vllm-0.27.1") -> list[str]:
    return [d.code for d in _judged(command, hardware, engine).diagnostics]


@pytest.mark.parametrize("case", FOUND, ids=lambda c: c["id"])
def test_a_reported_failure_is_found_from_its_command(case: dict[str, Any], tmp_path: Path) -> None:
    if "manifest" in case:
        (tmp_path / "pod.yaml").write_text(case["manifest"], encoding="utf-8")
        (launch,) = read_file(tmp_path / "pod.yaml").launches
        codes = [d.code for d in judged(described(launch, STORE)).diagnostics]
    else:
        codes = _codes(case["command"], case.get("hardware"), case.get("engine"))
    assert set(case["found"]) & set(codes)


@pytest.mark.parametrize("case", MISSED, ids=lambda c: c["id"])
def test_what_a_command_does_not_show_says_why(case: dict[str, Any]) -> None:
    assert case["why"]
    _judged(case["command"], case.get("hardware"), case.get("engine"))


def test_the_documented_share_of_reported_failures() -> None:
    page = (ROOT / "docs" / "lint.md").read_text("utf-8")
    assert f"{len(FOUND)} of {len(CASES)}" in page
    assert f"{len(CASES) + len(REPORTS['host'])} reports" in page
    ids = [case["id"] for case in CASES] + REPORTS["host"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", PROFILES)
def test_a_profiles_own_command_raises_nothing_that_its_profile_does_not(name: str) -> None:
    own = subject(name)
    command = " ".join([*(f"{v.name}={shlex.quote(v.value)}" for v in own.plan.engine.env), shlex.join(own.plan.engine.argv)])
    result = _judged(command, own.specs.profile.hardware, own.specs.profile.engine)
    known = {d.code for d in findings(Subject(own.specs, own.plan, {}), "plan")}
    assert {d.code for d in result.diagnostics} - known == set(), "\n".join(formatted(d) for d in result.diagnostics)
    assert [d for d in result.diagnostics if d.is_error] == []
    if result.described.model is not None:
        judgeable = {c for c in known if c[:3] not in _OF_BUNDLES and c not in _OF_PROFILES}
        assert judgeable - {d.code for d in result.diagnostics} <= {"SPD004", "SPD010"}  # These two ask for the profile's bridge and its lock.


def test_rules_left_out_exist_and_belong_to_profiles() -> None:
    codes = {r.rule.code for r in rules()}
    assert codes >= _OF_PROFILES
    assert {code.rstrip("0123456789") for code in codes} >= _OF_BUNDLES


def test_nothing_is_judged_by_a_guess() -> None:
    alone = _judged("vllm serve ORG/NOBODY-KNOWS --max-model-len 999999999")
    assert alone.diagnostics == ()
    assert {"CTX001", "MEM001"} <= set(alone.unjudged["model"])
    assert "QNT001" in alone.unjudged["card"] + alone.unjudged["model"]
    with_card = _judged("vllm serve ORG/NOBODY-KNOWS", "a40")
    assert "card" not in with_card.unjudged
    known = _judged("vllm serve cyankiwi/qwen3-coder-30b-a3b-instruct-awq-4bit", "a40")
    assert known.described.model == "qwen3-coder-awq"
    assert known.unjudged == {}
    assert not_judged(known) is None
    line = not_judged(alone)
    assert line is not None
    assert line.startswith("not judged, whether it fits among them:\n")
    assert f"{FACTS['model']}: `podwright new model ORG/NOBODY-KNOWS`" in line
    assert "CTX001" not in line
    assert "CTX001" in (not_judged(alone, codes=True) or "")


def test_a_value_that_hangs_on_a_variable_is_not_judged() -> None:
    result = _judged("vllm serve ORG/M --enable-auto-tool-choice --tool-call-parser $PARSER")
    assert [d.code for d in result.diagnostics] == ["CMD005"]
    assert "MDL004" in result.unjudged["variable"]
    assert "MDL004" in _codes("vllm serve ORG/M --enable-auto-tool-choice")


@pytest.mark.parametrize(
    ("command", "engine", "release", "exact"),
    [
        ("docker run vllm/vllm-openai:v0.26.0 ORG/M", None, "0.26.0", True),
        ("docker run vllm/vllm-openai:v0.27.1-cu129 ORG/M", None, "0.27.1", True),
        ("docker run vllm/vllm-openai:v0.11.0 ORG/M", None, "0.11.0", False),
        ("docker run vllm/vllm-openai:latest ORG/M", None, "0.33.0", True),
        ("docker run vllm/vllm-openai:v0.11.0 ORG/M", "vllm-0.26.0", "0.26.0", True),
        ("vllm serve ORG/M", None, "0.33.0", True),
    ],
)
def test_the_release_and_where_it_came_from(command: str, engine: str | None, release: str, exact: bool) -> None:
    found = _judged(command, engine=engine).described.release
    assert (found.engine.release, found.exact) == (release, exact)
    assert release in found.said


def test_an_option_of_a_release_without_a_table_is_a_warning_at_most() -> None:
    (found,) = _judged("docker run --gpus all vllm/vllm-openai:v0.11.0 ORG/M --no-such-option").diagnostics
    assert (found.code, found.severity) == ("ENG001", Severity.WARNING)


def test_more_gpus_than_the_spec_has_are_no_fault() -> None:
    result = _judged("vllm serve philbert440/Qwen3.8-27B-W4A16-AWQ -tp 4 --reasoning-parser qwen3", "a40", "vllm-0.27.1")
    assert "HWR001" in result.unjudged["link"]
    assert not {"HWR001", "HWR003", "HWR005"} & {d.code for d in result.diagnostics}
    assert "HWR004" in _codes("vllm serve philbert440/Qwen3.8-27B-W4A16-AWQ", "2xa40")
    assert "HWR005" in _codes("vllm serve ORG/M -tp 99999999999", "a40")  # A slip, and no set-up of cards.


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ("--max-num-batched-tokens 128", False),  # The engine then takes 128 sequences.
        ("--max-num-batched-tokens 128 --max-num-seqs 256", True),
        ("--no-enable-chunked-prefill", False),  # The engine then takes the whole window in a step.
        ("--no-enable-chunked-prefill --max-num-batched-tokens 2048", True),
    ],
)
def test_a_limit_that_nobody_gave_follows_the_one_that_is_given(options: str, refused: bool) -> None:
    command = f"vllm serve cyankiwi/Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit --max-model-len 32768 {options}"
    assert ("CTX010" in _codes(command, "a40")) is refused


def test_the_engines_own_defaults_are_judged_not_ours() -> None:
    command = "vllm serve philbert440/Qwen3.8-27B-W4A16-AWQ --reasoning-parser qwen3"
    assert "KVC011" in _codes(command, "a40")  # Hybrids keep prefixes only when told to.
    assert "KVC011" not in _codes(f"{command} --enable-prefix-caching", "a40")
    assert "MEM003" in _codes(command, "h100-sxm")  # 1,024 sequences by default on a large card.
    assert "MEM003" not in _codes(f"{command} --max-num-seqs 64", "h100-sxm")


def test_findings_point_into_the_command() -> None:
    command = "VLLM_USE_V2_MODEL_RUNNER=true vllm serve ORG/M \\\n  --swap-space 4 --dtype float99"
    places = {d.code: (d.position.line, d.position.column) for d in _judged(command, engine="vllm-0.27.1").diagnostics if d.position}
    assert places["ENG021"] == (1, 26)
    assert places["ENG002"] == (2, 3)
    assert places["ENG003"] == (2, 26)


def test_a_secret_is_found_and_never_shown() -> None:
    token = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"
    result = _judged(f"HF_TOKEN={token} vllm serve ORG/M --hf-token {token}")
    assert {d.code for d in result.diagnostics} >= {"SEC002", "ENG011"}
    assert token not in "".join(formatted(d) for d in result.diagnostics)


def test_a_token_from_outside_is_no_secret_in_clear() -> None:
    assert _codes("docker run --gpus all -e HF_TOKEN=$HF_TOKEN -e OTHER_TOKEN vllm/vllm-openai:v0.27.1 ORG/M", engine=None) == []


def test_control_characters_and_odd_names_do_no_harm() -> None:
    assert "ENG003" in _codes("A-B=1 C='x\ty' vllm serve ORG/M --dtype $'a' --kv-cache-dtype 'x\ny' --hf-overrides '{\"a\\u0000\": \"\\u0007\"}'")


def test_an_unknown_release_is_not_said_to_refuse() -> None:
    found = {d.code: d for d in _judged("docker run --gpus all vllm/vllm-openai:v0.8.5 --model ORG/M --enable-reasoning --nothing").diagnostics}
    for code in ("ENG001", "ENG002"):
        assert found[code].severity is Severity.WARNING
        assert found[code].why.endswith("whether 0.8.5 does is not known here")
    (exact,) = _judged("docker run --gpus all vllm/vllm-openai:v0.27.1 --model ORG/M --nothing").diagnostics
    assert exact.why == "the engine refuses its whole command line and never starts"


def test_growth_beside_the_share_asks_for_a_smaller_share_and_not_for_a_window_that_fits() -> None:
    model = "cyankiwi/Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit"
    (found,) = (d for d in _judged(f"vllm serve {model} --max-model-len 16384 --gpu-memory-utilization 0.92", "rtx-4090").diagnostics if d.code == "MEM002")
    assert found.fix == "set --gpu-memory-utilization to 0.91 or less; the window is not what is short"
    assert found.what.startswith("it may not fit: the process grows ")
