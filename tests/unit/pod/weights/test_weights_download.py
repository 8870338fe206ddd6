"""An engine's repositories, brought by the real huggingface_hub from a Hub over HTTP."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod.contract import Fetch
from pod.hub import child
from pod.hub.child import Outcome, Progress, Retry
from pod.weights.download import bring, weights_plan
from pod.weights.offline import offline

from tests.hub_server import Hub, hub_server
from tests.unit.pod.hub.transfers import env_of, safetensors

MODEL, DRAFT = Fetch("model", "owner/model", None, 3 << 20), Fetch("draft", "owner/draft", None, None)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        for name in ("owner/model", "owner/draft"):
            server.create(name)
            server.commit(name, {"config.json": b"{}", "model.safetensors": safetensors(3 << 20)})
        yield server


def test_all_that_is_missing_is_fetched_and_then_nothing_is_asked(hub: Hub, tmp_path: Path) -> None:
    told: list[tuple[str, Progress | Retry]] = []
    plan = weights_plan([MODEL, DRAFT], tmp_path)
    assert plan.missing == (MODEL, DRAFT) and plan.room.need_bytes == 3 << 20 and "owner/draft is not there" in plan.summary
    outcome = bring([MODEL, DRAFT], tmp_path, env_of(hub), lambda repo, line: told.append((repo, line)))
    assert outcome.is_ok and outcome.facts["fetched"] == ["owner/model", "owner/draft"], outcome
    assert {repo for repo, _ in told} == {"owner/model", "owner/draft"}
    hub.seen.clear()
    again = bring([MODEL, DRAFT], tmp_path, env_of(hub))
    assert again.is_ok and hub.seen == [] and again.detail == "all of 2 repositories are whole on disk"
    assert offline(weights_plan([MODEL, DRAFT], tmp_path).found).is_offline


def test_the_second_that_fails_is_told_and_the_first_is_kept(hub: Hub, tmp_path: Path) -> None:
    gone = Fetch("draft", "owner/none", None, None)
    outcome = bring([MODEL, gone], tmp_path, env_of(hub))
    assert outcome.kind == "not-found" and "owner/none" in outcome.detail
    assert weights_plan([MODEL, gone], tmp_path).missing == (gone,)
    assert not offline(weights_plan([MODEL, gone], tmp_path).found).is_offline


def test_a_repository_that_holds_no_model_is_not_taken_for_one(hub: Hub, tmp_path: Path) -> None:
    hub.commit("owner/model", {"model.safetensors": None})
    outcome = bring([MODEL], tmp_path, env_of(hub))
    assert outcome.kind == "error" and outcome.detail == "owner/model was downloaded and still holds no weights" and not outcome.may_pass


def test_the_command_says_the_same_in_json_lines(hub: Hub, tmp_path: Path) -> None:
    wanted = json.dumps([dataclasses.asdict(MODEL)])
    done = subprocess.run(
        [sys.executable, "-m", "pod.weights", f"--cache={tmp_path}"],
        input=wanted,
        env=env_of(hub),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [child.parsed(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and isinstance(lines[-1], Outcome) and lines[-1].is_ok, done.stdout + done.stderr
    assert any(isinstance(line, Progress) for line in lines[:-1])


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"role": "model"}]', '[{"role":"x","repo":"a/b","revision":null,"expected_bytes":null}]']
)
def test_a_list_that_is_none(text: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pod.weights", f"--cache={tmp_path}"],
        input=text,
        env=env_of(Hub()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 65 and done.stderr.startswith("standard input: ") and "Traceback" not in done.stderr


def test_the_parent_s_side_loads_nothing_heavy() -> None:
    """A supervisor that loaded huggingface_hub would take 60 MiB for nothing."""
    code = (
        "import sys, pod.weights.download, pod.weights.offline, pod.hub.child, pod.hub.failures, pod.hub.progress; "
        "print([m for m in ('huggingface_hub', 'httpx', 'asyncio', 'aiohttp', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env_of(Hub()), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
