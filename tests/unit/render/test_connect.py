"""The client scripts, run in a real shell."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compiler.plan import Plan
from compiler.plan.core import ClientPlan, EnvVar
from compiler.render.connect import powershell_text, render_connect, render_connect_ps1, render_connect_sh
from tests.unit.render.plans import example_plan

ENV = (EnvVar("ANTHROPIC_MODEL", "example[1m]", "main model"), EnvVar("CLAUDE_CODE_MAX_CONTEXT_TOKENS", "262144"), EnvVar("ANTHROPIC_BASE_URL", "ignored"))
SHELLS = [name for name in ("bash", "zsh") if shutil.which(name)]


def plan(**changes: Any) -> Plan:
    client = ClientPlan("example[1m]", 262144, None, ("ANTHROPIC_API_KEY",), ENV, "ANTHROPIC_AUTH_TOKEN", ())
    return example_plan(**({"client": client} | changes))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return written(plan(), tmp_path)


def written(of: Plan, folder: Path) -> Path:
    file = folder / "connect.sh"
    artifact = render_connect_sh(of)
    file.write_bytes(artifact.content)
    file.chmod(artifact.mode)
    return file


def shell(text: str, folder: Path, name: str = "bash", **env: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), **env}
    return subprocess.run([name, "-c", text], cwd=folder, env=clean, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)


SHOW = 'echo "${ANTHROPIC_API_KEY-unset} $ANTHROPIC_BASE_URL ${ANTHROPIC_AUTH_TOKEN-unset} $ANTHROPIC_MODEL ${CLAUDE_CODE_MAX_CONTEXT_TOKENS-unset}"'


@pytest.mark.parametrize("name", SHELLS)
def test_sourcing_sets_everything_and_undo_puts_it_back(script: Path, name: str) -> None:
    before = {"ANTHROPIC_API_KEY": "sk $mine", "ANTHROPIC_MODEL": "claude; x", "ANTHROPIC_BASE_URL": "old", "ANTHROPIC_AUTH_TOKEN": "t'o"}
    text = f". ./connect.sh abc123; {SHOW}; . ./connect.sh def456; {SHOW}; . ./connect.sh --undo; {SHOW}; env | grep -c '^ANTHROPIC_API_KEY='"
    result = shell(text, script.parent, name, PODWRIGHT_KEY="k\"e'y $x", **before)
    assert result.stdout.splitlines() == [
        "unset https://abc123-8080.proxy.runpod.net k\"e'y $x example[1m] 262144",
        "unset https://def456-8080.proxy.runpod.net k\"e'y $x example[1m] 262144",
        "sk $mine old t'o claude; x unset",
        "1",
    ]
    assert "k\"e'y" not in result.stderr


def test_undo_without_connect_changes_nothing(script: Path) -> None:
    assert shell(f". ./connect.sh --undo; {SHOW}", script.parent, ANTHROPIC_API_KEY="mine").stdout.startswith("mine ")


@pytest.mark.parametrize(("words", "code"), [("", 2), ("'a b'", 2), ("'$(x)'", 2), ("--what", 2), ("abc123", 1)])
def test_what_it_cannot_use_leaves_the_shell_as_it_was(script: Path, words: str, code: int) -> None:
    result = shell(f". ./connect.sh {words}; echo $?; {SHOW}", script.parent, ANTHROPIC_API_KEY="mine")
    assert result.stdout.splitlines() == [str(code), "mine  unset  unset"]
    assert "connect.sh: " in result.stderr


def test_an_address_is_taken_as_it_is(script: Path) -> None:
    assert " http://10.0.0.5:8080 " in shell(f". ./connect.sh http://10.0.0.5:8080/; {SHOW}", script.parent, PODWRIGHT_KEY="k").stdout


def test_running_it_needs_launch_and_then_starts_claude_with_the_rest(script: Path) -> None:
    claude = script.parent / "claude"
    claude.write_text('#!/bin/sh\necho "$ANTHROPIC_MODEL ${ANTHROPIC_API_KEY-unset} $# $2"; exit 5\n')
    claude.chmod(0o755)
    environ = {"PODWRIGHT_KEY": "k", "ANTHROPIC_API_KEY": "mine"}
    assert shell("./connect.sh abc123", script.parent, **environ).returncode == 2
    result = shell("./connect.sh abc123 --launch -- -p 'hello you'", script.parent, **environ)
    assert (result.returncode, result.stdout) == (5, "example[1m] unset 2 hello you\n")


def test_an_own_machine_needs_no_argument_and_an_open_endpoint_no_key(tmp_path: Path) -> None:
    bridge = dataclasses.replace(example_plan().bridge, api_key_env=None)
    written(plan(target="docker", bridge=bridge), tmp_path)
    assert shell(f". ./connect.sh; {SHOW}", tmp_path).stdout == "unset http://127.0.0.1:8080 none example[1m] 262144\n"
    assert "not an address" in shell(". ./connect.sh abc123", tmp_path).stderr


def test_hostile_values_stay_values(tmp_path: Path) -> None:
    hostile = "a'b\"; touch pwned; $(touch pwned) `touch pwned`\n# x"
    client = dataclasses.replace(plan().client, model=hostile, env=(EnvVar("ANTHROPIC_MODEL", hostile, hostile),))
    written(plan(client=client, profile="p\ntouch pwned"), tmp_path)
    result = shell('. ./connect.sh abc123; printf %s "$ANTHROPIC_MODEL"', tmp_path, PODWRIGHT_KEY="k")
    assert result.stdout == hostile
    assert not (tmp_path / "pwned").exists()


@pytest.mark.linters
@pytest.mark.parametrize("target", ["runpod", "docker"])
def test_shellcheck_finds_nothing(tmp_path: Path, target: str) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    result = subprocess.run(["shellcheck", str(written(plan(target=target), tmp_path))], capture_output=True, text=True, timeout=60)
    assert result.stdout == ""


def test_powershell_gets_the_same_values_in_the_same_order() -> None:
    text = render_connect_ps1(plan()).text
    assert text.isascii()
    order = ["Remove-Item Env:ANTHROPIC_API_KEY", "$env:ANTHROPIC_BASE_URL = $url", "$env:ANTHROPIC_AUTH_TOKEN = $key",
             "$env:ANTHROPIC_MODEL = 'example[1m]'", "$env:CLAUDE_CODE_MAX_CONTEXT_TOKENS = '262144'", "& claude @ClaudeArguments"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "'ignored'" not in text and "$key = $env:PODWRIGHT_KEY" in text
    assert "$url + '-8080.proxy.runpod.net'" in text


def test_powershell_quoting_doubles_every_quote_that_it_knows() -> None:
    assert powershell_text("a'b") == "'a''b'"
    assert powershell_text("\u2019$x") == "'\u2019\u2019$x'"


def test_no_script_holds_a_key() -> None:
    for artifact in render_connect(plan()):
        assert "ANTHROPIC_AUTH_TOKEN='" not in artifact.text
    assert [a.path for a in render_connect(plan())] == ["connect.sh", "connect.ps1"]
