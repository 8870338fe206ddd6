"""`podwright journal` on documents that the runtime itself writes, from a Hub over HTTP."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from pod.journal import mirror
from pod.journal.redact import Redactor

from compiler.deploy.publish import journal as module
from compiler.deploy.publish.journal import news, read, run_journal
from compiler.deploy.state_file import PodRecord, State, StateFile
from compiler.plan.core import JournalPlan, Plan
from tests.hub_server import Hub
from tests.unit.deploy.publish.conftest import REPO, HastyClock


def document(pod: str, at: float, *messages: str, profile: str = "tiny-cpu", state: str = "serving") -> bytes:
    entries = [{"at": f"2026-11-30T10:00:0{n}Z", "kind": "phase", "message": text} for n, text in enumerate(messages)]
    subject = mirror.Subject(pod, profile, "0.27.1", state, "", 18081)
    return mirror.document(at, subject, entries, "no GPU", None, "engine says hello", "bridge says hello", Redactor([])).encode()


@pytest.fixture
def plan(tiny: Plan) -> Plan:
    return dataclasses.replace(tiny, journal=JournalPlan(REPO, 30.0, 300.0))


def ran(plan: Plan, folder: Path, capsys: pytest.CaptureFixture[str], **more: Any) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run_journal(plan, **({"pod": None, "lines": 100, "follow": False, "as_json": False, "folder": folder, "clock": HastyClock()} | more))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_newest_journal_of_the_profile_is_shown(hub: Hub, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.commit(REPO, {
        "state/old.log": document("old", 1e9, "long ago"), "state/new.log": document("new", 1.7e9, "loading", "it serves"),
        "state/other.log": document("other", 1.8e9, "of another profile", profile="another"), "state/readme.log": b"nothing of ours\n",
    })  # fmt: skip
    code, out, err = ran(plan, tmp_path, capsys)
    assert code == 0 and "it serves" in out and "engine says hello" in out and "long ago" not in out and "another profile" not in out
    assert "for --pod: old" in err
    assert "long ago" in ran(plan, tmp_path, capsys, pod="old")[1]
    assert "loading" not in ran(plan, tmp_path, capsys, lines=1)[1]


def test_the_pod_of_the_state_file_comes_first(hub: Hub, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.commit(REPO, {"state/mine.log": document("mine", 1e9, "mine"), "state/newer.log": document("newer", 1.7e9, "newer")})
    StateFile("tiny-cpu", tmp_path).write(State("tiny-cpu", pod=PodRecord("mine", "n", "u", "i", None, 0.0, None)))
    assert "mine" in ran(plan, tmp_path, capsys)[1].splitlines()[0]


def test_following_prints_what_is_new(hub: Hub, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    hub.commit(REPO, {"state/a.log": document("a", 1e9, "one", state="booting")})
    later = iter([document("a", 1e9 + 60, "one", "two"), document("a", 1e9 + 120, "one", "two", "three")])

    class Clock(HastyClock):
        def sleep(self, seconds: float) -> None:
            hub.commit(REPO, {"state/a.log": next(later)})

    code, out, _ = ran(plan, tmp_path, capsys, follow=True, clock=Clock(), looks=2)
    assert code == 0
    assert [line.rpartition(": ")[2] for line in out.splitlines()[-3:]] == ["serving", "two", "three"]


@pytest.mark.parametrize("files", [{}, {"state/x.log": document("x", 1e9, "m", profile="another")}])
def test_no_journal_says_what_would_make_one(hub: Hub, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes]) -> None:
    hub.commit(REPO, files or {"a": b"b"})
    code, _, err = ran(plan, tmp_path, capsys)
    assert code == 4 and "DPL072" in err and "HF_TOKEN" in err


def test_a_profile_without_a_journal_says_what_to_add(tiny: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ran(dataclasses.replace(tiny, journal=None), tmp_path, capsys)
    assert code == 4 and "journal: {repo:" in err


def test_what_looks_like_a_secret_or_moves_the_cursor_is_taken_out() -> None:
    text = document("a", 1e9, "token " + "hf_" + "a" * 30, "\x1b[2J gone").decode()
    found = read("state/a.log", text)
    assert found is not None
    shown = found.text(10)
    assert "hf_aaa" not in shown and "\x1b" not in shown and found.state == "serving"
    assert read("p", "") is None and read("p", "something else") is None


def test_news_are_what_comes_after_the_last_known_line() -> None:
    assert news(["a", "b"], ["a", "b", "c"]) == ["c"]
    assert news(["z"], ["a", "b"]) == ["a", "b"]
    assert news([], ["a"]) == ["a"] and news(["a"], ["a"]) == []
    assert module.IN_REPOSITORY == "state" == mirror.path_in_repo("x").partition("/")[0]
