"""`podwright connect`: fitted to what the endpoint serves, undone, warned about, and started, against an endpoint over HTTP."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.deploy.connect import Connection, EndpointKeyWrong, EndpointSilent, Orders, connection, run_connect
from compiler.deploy.connect_settings import elsewhere, overriding, settings_files
from compiler.deploy.state_file import PodRecord, State, StateFile
from compiler.plan import Plan
from tests.support import ROOT, subject
from tests.unit.deploy.servers import Reply, Request, Server, serving

KEY = "a-key-of-the-endpoint"


class Models(Server):
    """An endpoint's list of models. `status` and `body` are what it answers to holders of the key."""

    def __init__(self, *rows: tuple[str, int | None]) -> None:
        super().__init__(self.models)
        self.status, self.body = 200, json.dumps({"data": [{"id": name, "max_model_len": window} for name, window in rows]})

    def models(self, request: Request) -> Reply:
        assert request.path == "/v1/models"
        if request.headers.get("Authorization", request.headers.get("authorization")) != f"Bearer {KEY}":
            return Reply(401, b"{}")
        return Reply(self.status, self.body.encode())


@pytest.fixture(scope="module")
def million() -> Plan:
    return subject("nemotron-ada").plan


@pytest.fixture(scope="module")
def usual() -> Plan:
    return subject("qwen38-2xa40").plan


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, without settings."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PODWRIGHT_API_KEY", KEY)
    for name in ("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def endpoint() -> Iterator[Models]:
    models = Models(("qwen38", 262_144), ("claude-qwen38", 262_144))
    with serving(models):
        yield models


def fitted(plan: Plan, endpoint: Models, home: Path, **environment: str) -> Connection:
    return connection(plan, endpoint.url, KEY, {"HOME": str(home), **environment}, home)


def test_an_endpoint_that_serves_the_plan_gets_the_plans_variables(usual: Plan, endpoint: Models, home: Path) -> None:
    found = fitted(usual, endpoint, home)
    assert found.warnings == () and found.window == 262_144 and found.plan.client == usual.client
    assert found.variables == {"ANTHROPIC_BASE_URL": endpoint.url, **{v.name: v.value for v in usual.client.env}}
    assert KEY not in str(found)


def test_another_window_is_taken_and_said(usual: Plan, endpoint: Models, home: Path) -> None:
    endpoint.body = json.dumps({"data": [{"id": "qwen38", "max_model_len": 131_072}]})
    found = fitted(usual, endpoint, home)
    assert found.variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == found.variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "131072"
    assert found.plan.client.model == "qwen38" and "serves 131,072 tokens, the plan has 262,144" in found.warnings[0]


def test_a_million_that_is_not_there_takes_the_suffix_away(million: Plan, endpoint: Models, home: Path) -> None:
    """The suffix would promise a million, and a name that starts with claude- ignores the window."""
    bare = next(n for n in million.model.served_names if not n.startswith("claude-"))
    endpoint.body = json.dumps({"data": [{"id": n, "max_model_len": 400_000} for n in million.model.served_names]})
    found = fitted(million, endpoint, home)
    assert found.plan.client.model == bare and found.variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "400000"
    tiers = {value for name, value in found.variables.items() if name.endswith("MODEL")}
    assert tiers == {bare}


def test_a_million_that_the_plan_does_not_have_needs_the_suffix(usual: Plan, endpoint: Models, home: Path) -> None:
    endpoint.body = json.dumps({"data": [{"id": "qwen38", "max_model_len": 1_000_000}]})
    found = fitted(usual, endpoint, home)
    assert found.plan.client.model == "qwen38[1m]" and "CLAUDE_CODE_MAX_CONTEXT_TOKENS" not in found.variables
    assert found.variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] == "1000000"


def test_other_names_are_taken_bare_ones_first(usual: Plan, endpoint: Models, home: Path) -> None:
    endpoint.body = json.dumps({"data": [{"id": "claude-other", "max_model_len": 262_144}, {"id": "other", "max_model_len": 262_144}]})
    found = fitted(usual, endpoint, home)
    assert found.plan.client.model == "other" and "does not serve qwen38; other is taken" in found.warnings[0]


def test_an_endpoint_that_tells_no_window(usual: Plan, endpoint: Models, home: Path) -> None:
    endpoint.body = json.dumps({"data": [{"id": "qwen38"}]})
    found = fitted(usual, endpoint, home)
    assert found.window == 262_144 and "does not say" in found.warnings[0]


@pytest.mark.parametrize(("status", "body"), [(200, "<html>sign in</html>"), (200, "{}"), (502, "{}"), (529, '{"error": {}}'), (200, "[" * 100_000)])
def test_what_is_no_endpoint(usual: Plan, endpoint: Models, home: Path, status: int, body: str) -> None:
    endpoint.status, endpoint.body = status, body
    with pytest.raises(EndpointSilent, match=f"it answers {status}, and no list of models"):
        fitted(usual, endpoint, home)


def test_nobody_there_and_a_wrong_key(usual: Plan, endpoint: Models, home: Path) -> None:
    with pytest.raises(EndpointSilent, match="does not serve"):
        connection(usual, "http://127.0.0.1:9", KEY, {"HOME": str(home)}, home)
    with pytest.raises(EndpointSilent):
        connection(usual, "nonsense", KEY, {"HOME": str(home)}, home)
    with pytest.raises(EndpointKeyWrong, match="refuses the key"):
        connection(usual, endpoint.url, "another", {"HOME": str(home)}, home)


def test_settings_that_win_are_named_without_their_secrets(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "deep").mkdir(parents=True)
    (project / ".claude").mkdir()
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps({"env": {"ANTHROPIC_MODEL": "opus", "ANTHROPIC_API_KEY": "sk-secret"}, "apiKeyHelper": "/bin/key"}))
    (project / ".claude" / "settings.json").write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://here", "OTHER": "1"}}))
    (project / ".claude" / "settings.local.json").write_text("{")
    found = overriding({"ANTHROPIC_MODEL": "tiny", "ANTHROPIC_BASE_URL": "http://here"}, ["ANTHROPIC_API_KEY"], settings_files({"HOME": str(home)}, project / "deep"))
    assert len(found) == 4 and "sk-secret" not in " ".join(found)
    assert found[0].startswith("the local settings") and "it is not JSON" in found[0]
    assert "set ANTHROPIC_MODEL to 'opus', which wins" in found[1] and "ANTHROPIC_API_KEY to something else" in found[2] and "apiKeyHelper" in found[3]


def test_where_settings_are_looked_for(home: Path, tmp_path: Path) -> None:
    kinds = dict(settings_files({"HOME": str(home), "CLAUDE_CONFIG_DIR": "/elsewhere"}, tmp_path))
    assert kinds["user"] == Path("/elsewhere/settings.json") and kinds["project"] == tmp_path / ".claude/settings.json"
    assert list(kinds) == ["managed", "local", "project", "user"]


def test_other_providers_are_unset(usual: Plan, endpoint: Models, home: Path) -> None:
    assert elsewhere({"CLAUDE_CODE_USE_BEDROCK": "1", "CLAUDE_CODE_USE_VERTEX": ""}) == ("CLAUDE_CODE_USE_BEDROCK",)
    found = fitted(usual, endpoint, home, CLAUDE_CODE_USE_BEDROCK="1")
    assert "CLAUDE_CODE_USE_BEDROCK" in found.plan.client.unset and "another provider" in found.warnings[0]


def printed(capsys: pytest.CaptureFixture[str], plan: Plan, **orders: Any) -> tuple[int, str, str]:
    code = run_connect(plan, Orders(**orders), folder=Path.cwd() / ".podwright")
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_lines_for_a_shell_set_and_undo(usual: Plan, endpoint: Models, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    code, lines, _ = printed(capsys, usual, url=endpoint.url)
    assert code == 0 and KEY not in lines
    _, undo, _ = printed(capsys, usual, undo=True)
    names = "ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_MODEL CLAUDE_CODE_MAX_CONTEXT_TOKENS"
    show = f"for n in {names}; do eval \"echo $n=\\${{$n-unset}}\"; done"
    script = f"set -u\neval \"$SET\"\n{show}\neval \"$UNDO\"\n{show}\n"
    before = {"ANTHROPIC_API_KEY": "sk-before", "ANTHROPIC_AUTH_TOKEN": "mine", "PATH": os.environ["PATH"], "PODWRIGHT_API_KEY": KEY}
    ran = subprocess.run(["bash", "-c", script], env={**before, "SET": lines, "UNDO": undo}, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert ran.stdout.splitlines() == [
        "ANTHROPIC_API_KEY=unset", f"ANTHROPIC_AUTH_TOKEN={KEY}", f"ANTHROPIC_BASE_URL={endpoint.url}", "ANTHROPIC_MODEL=qwen38", "CLAUDE_CODE_MAX_CONTEXT_TOKENS=262144",
        "ANTHROPIC_API_KEY=sk-before", "ANTHROPIC_AUTH_TOKEN=mine", "ANTHROPIC_BASE_URL=unset", "ANTHROPIC_MODEL=unset", "CLAUDE_CODE_MAX_CONTEXT_TOKENS=unset",
    ]  # fmt: skip


def test_lines_for_powershell(usual: Plan, endpoint: Models, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    code, lines, _ = printed(capsys, usual, url=endpoint.url + "/", shell="powershell")
    assert code == 0 and f"[string]$Address = '{endpoint.url}'," in lines and "Remove-Item Env:ANTHROPIC_API_KEY" in lines and KEY not in lines
    code, undo, _ = printed(capsys, usual, undo=True, shell="powershell")
    assert code == 0 and "[switch]$Undo = $true," in undo


def test_without_a_state_file_the_profiles_own_target_is_asked(usual: Plan, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    code, _, err = printed(capsys, dataclasses.replace(usual, target="docker"))
    assert code == 4 and "DOCKER_HOST" in err and "RUNPOD" not in err
    code, _, err = printed(capsys, dataclasses.replace(usual, target="runpod"))
    assert code == 4 and "RUNPOD_API_KEY is not set" in err


def test_the_address_is_the_state_files(usual: Plan, endpoint: Models, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    file = StateFile(usual.profile, tmp_path / ".podwright")
    with file.locked():
        file.write(State(usual.profile, pod=PodRecord("p1", "n", endpoint.url, "", None, 1.0, None)))
    code, out, _ = printed(capsys, usual, as_json=True)
    told = json.loads(out)
    assert code == 0 and told["url"] == endpoint.url and told["served"] == ["qwen38", "claude-qwen38"] and told["unset"] == ["ANTHROPIC_API_KEY"] and KEY not in out
    monkeypatch.delenv("PODWRIGHT_API_KEY")
    code, _, err = printed(capsys, usual)
    assert code == 4 and "DPL034" in err and "PODWRIGHT_API_KEY is not set" in err
    monkeypatch.setenv("PODWRIGHT_API_KEY", "wrong")
    assert json.loads(printed(capsys, usual, as_json=True)[1])["code"] == "DPL091"


def launched(folder: Path, *words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{path or folder}:/usr/bin:/bin", "HOME": str(folder), "PODWRIGHT_API_KEY": KEY, "ANTHROPIC_API_KEY": "sk-before", "CLAUDE_CODE_USE_VERTEX": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'images/runtime'}"}
    return subprocess.run([sys.executable, "-m", "compiler", "connect", "qwen38-2xa40", *words], cwd=folder, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_launch_starts_claude_with_the_variables_and_gives_its_exit_code(endpoint: Models, home: Path) -> None:
    program = home / "claude"
    program.write_text('#!/bin/sh\necho "$ANTHROPIC_BASE_URL $ANTHROPIC_AUTH_TOKEN $ANTHROPIC_MODEL ${ANTHROPIC_API_KEY-unset} ${CLAUDE_CODE_USE_VERTEX-unset} $*"\nexit 7\n')
    program.chmod(0o755)
    ran = launched(home, "--url", endpoint.url, "--launch", "--", "-p", "two words")
    assert ran.returncode == 7 and ran.stdout == f"{endpoint.url} {KEY} qwen38 unset unset -p two words\n", ran.stderr
    assert "Claude Code: qwen38, 262,144 tokens" in ran.stderr and "CLAUDE_CODE_USE_VERTEX is set here" in ran.stderr
    missing = launched(home, "--url", endpoint.url, "--launch", path=Path("/nowhere"))
    assert missing.returncode == 4 and "DPL092" in missing.stderr
    assert launched(home, "--url", endpoint.url, "word").returncode == 2 and launched(home, "--undo", "--json").returncode == 2
