"""What is done to pods that exist, and what is asked about them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from compiler.deploy.pod_actions import run_action, run_logs, run_sweep
from compiler.deploy.pod_commands import Orders, run_deploy, run_wait
from compiler.deploy.pod_queries import Search, run_cost, run_status, run_stock
from compiler.deploy.provider import CudaPin, StockQuestion
from compiler.deploy.state_file import State, StateFile
from tests.runpod_stub import HOST_FULL, Course, RunpodStub, problem
from tests.unit.deploy.conftest import ADA, L40S, Deploy


@pytest.fixture
def serving_pod(deploy: Deploy) -> Deploy:
    assert deploy().code == 0
    return deploy


def act(deploy: Deploy, action: Any, *, pod_id: str | None = None, yes: bool = True) -> int:
    return run_action("nemotron-ada", action, pod_id=pod_id, yes=yes, transport="v2", as_json=False, folder=deploy.folder, clock=deploy.stub.clock)


def status(deploy: Deploy, capsys: pytest.CaptureFixture[str], *profiles: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run_status(profiles, transport="v2", as_json=True, folder=deploy.folder, clock=deploy.stub.clock) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["pods"]
    return found


def test_status_says_what_it_is_where_and_what_it_cost(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.clock.now = stub.pods["pod0001"].created + 7200
    before = len(stub.requests)
    (row,) = status(serving_pod, capsys)
    assert row["status"] == "RUNNING" and row["ready"] is True and row["gpu"] == ADA and row["data_center"] == "EU-SE-1" and row["cuda"] == "13.0"
    assert row["cost_usd"] == pytest.approx(1.54) and row["manifest"] == serving_pod.wanted.manifest
    assert len(stub.requests) - before == 2
    assert run_status([], transport="v2", as_json=False, folder=serving_pod.folder, clock=stub.clock) == 0
    shown = capsys.readouterr().out
    assert "RUNNING, serving" in shown and "2 h 00 min, $1.54" in shown and "$0.77/h" in shown


def test_status_makes_a_lost_state_file_again(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    file = StateFile("nemotron-ada", serving_pod.folder)
    url = file.read().pod.url  # type: ignore[union-attr]
    file.path.unlink()
    (row,) = status(serving_pod, capsys)
    assert row["profile"] == "nemotron-ada" and row["url"] == url and "made again" in row["note"]
    read = file.read()
    assert read.pod is not None and read.pod.id == "pod0001" and read.pod.created == stub.pods["pod0001"].created


def test_status_of_nothing(deploy: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(deploy, capsys) == []
    stub.make({"name": "somebody-elses", "gpu": {"id": ADA, "count": 1}})
    assert status(deploy, capsys) == []
    (row,) = status(deploy, capsys, "nemotron-ada")
    assert row["pod"] is None and row["note"] == "no pod"


def test_stop_start_restart_terminate(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    pod = stub.pods["pod0001"]
    assert act(serving_pod, "restart") == 0
    assert act(serving_pod, "stop") == 0 and pod.stopped
    assert status(serving_pod, capsys)[0]["status"] == "EXITED"
    assert act(serving_pod, "stop") == 4 and "DPL008" in capsys.readouterr().err
    assert act(serving_pod, "start") == 0 and stub.status(pod) == "RUNNING"
    assert "spends $0.77 an hour" in capsys.readouterr().err
    assert act(serving_pod, "terminate") == 0 and pod.terminated
    assert StateFile("nemotron-ada", serving_pod.folder).read().pod is None
    assert act(serving_pod, "terminate") == 4 and "DPL036" in capsys.readouterr().err


def test_nothing_is_done_without_a_yes(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("stop", "restart", "terminate", "start"):
        assert act(serving_pod, action, yes=False) == 4
        assert "DPL035" in capsys.readouterr().err
    assert stub.status(stub.pods["pod0001"]) == "RUNNING"


def test_start_on_a_full_host_says_what_to_do(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    act(serving_pod, "stop")
    stub.fault("POST", "/action$", lambda r: problem(400, HOST_FULL))
    assert act(serving_pod, "start") == 4
    assert "DPL042" in (err := capsys.readouterr().err) and "podwright deploy nemotron-ada" in err


def test_start_without_gpus_is_stopped_again(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    act(serving_pod, "stop")
    stub.pods["pod0001"].course = Course(gpus=0)
    assert act(serving_pod, "start") == 4
    assert "0 GPUs instead of 1" in capsys.readouterr().err and stub.pods["pod0001"].stopped


def test_a_pod_by_its_id(serving_pod: Deploy, stub: RunpodStub) -> None:
    stray = stub.make({"name": "podwright-nemotron-ada-ffffff", "gpu": {"id": ADA, "count": 1}})
    assert act(serving_pod, "terminate", pod_id=stray.id) == 0
    assert stray.terminated and not stub.pods["pod0001"].terminated
    assert StateFile("nemotron-ada", serving_pod.folder).read().pod is not None


def test_sweep_takes_strays_and_those_whose_hours_are_over(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    def sweep(**options: Any) -> int:
        return run_sweep(**({"yes": True, "dry_run": False, "transport": "v2", "as_json": False, "folder": serving_pod.folder, "clock": stub.clock} | options))

    assert sweep() == 0 and "nothing to sweep" in capsys.readouterr().out
    stray = stub.make({"name": "podwright-old-thing-0a0b0c", "gpu": {"id": ADA, "count": 1}})
    other = stub.make({"name": "training-run", "gpu": {"id": ADA, "count": 1}})
    asked_for = stub.make({"name": "podwright-fast-111111", "gpu": {"id": ADA, "count": 1}})
    StateFile("fast", serving_pod.folder).write(State("fast", intent="podwright-fast-111111"))
    assert sweep(dry_run=True) == 0 and "podwright-old-thing" in capsys.readouterr().err and not stray.terminated
    assert sweep(yes=False) == 4 and not stray.terminated
    assert sweep() == 0 and stray.terminated and not other.terminated and not asked_for.terminated
    assert not stub.pods["pod0001"].terminated


def test_a_command_at_work_is_not_disturbed(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    file = StateFile("nemotron-ada", serving_pod.folder)
    read = file.read()
    with file.locked():
        assert act(serving_pod, "terminate") == 4 and "DPL025" in capsys.readouterr().err and not stub.pods["pod0001"].terminated
        assert status(serving_pod, capsys)[0]["status"] == "RUNNING"
        file.write(State("nemotron-ada", intent=stub.pods["pod0001"].body["name"]))
        assert status(serving_pod, capsys)[0]["pod"] == "pod0001"
        assert file.read().pod is None  # Whoever holds the lock writes the file.
        assert read.pod is not None
        file.write(dataclasses.replace(read, pod=dataclasses.replace(read.pod, end_by=1.0)))
        assert run_sweep(yes=True, dry_run=False, transport="v2", as_json=False, folder=serving_pod.folder, clock=stub.clock) == 0
        assert "is left" in capsys.readouterr().err and not stub.pods["pod0001"].terminated
    assert run_sweep(yes=True, dry_run=False, transport="v2", as_json=False, folder=serving_pod.folder, clock=stub.clock) == 0
    assert stub.pods["pod0001"].terminated


def test_hours_that_are_over_end_a_pod(deploy: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy(max_hours=2.0).code == 0
    stub.clock.now += 3 * 3600
    assert "its hours" in status(deploy, capsys)[0]["note"]
    assert run_sweep(yes=True, dry_run=False, transport="v2", as_json=False, folder=deploy.folder, clock=stub.clock) == 0
    assert stub.pods["pod0001"].terminated and StateFile("nemotron-ada", deploy.folder).read().pod is None


def test_hours_that_end_while_it_starts_end_the_deploy(deploy: Deploy, stub: RunpodStub) -> None:
    stub.courses = [Course(serves=3000)]
    ended = deploy(max_hours=0.1)
    assert ended.code == 4 and "DPL039" in ended.err and stub.pods["pod0001"].terminated


def test_wait_proves_and_leaves_the_pod(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    plan = serving_pod.wanted.plan
    assert run_wait(plan, transport="v2", as_json=True, folder=serving_pod.folder, clock=stub.clock) == 0
    assert [p["name"] for p in json.loads(capsys.readouterr().out)["proofs"]] == ["CUDA", "key", "context", "generation"]
    stub.fault("POST", "/v1/messages$", lambda r: problem(500, "no"), times=3)
    assert run_wait(plan, transport="v2", as_json=False, folder=serving_pod.folder, clock=stub.clock) == 4
    assert not stub.pods["pod0001"].terminated
    act(serving_pod, "terminate")
    assert run_wait(plan, transport="v2", as_json=False, folder=serving_pod.folder, clock=stub.clock) == 4


def test_logs_and_following_them(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    def logs(**options: Any) -> list[str]:
        capsys.readouterr()
        assert run_logs("nemotron-ada", **({"tail": 100, "source": None, "follow": False, "transport": "v2", "folder": serving_pod.folder, "clock": stub.clock} | options)) == 0
        return capsys.readouterr().out.splitlines()

    assert len(logs()) == 4 and len(logs(tail=2)) == 2
    assert all("  system  " in line for line in logs(source="system"))
    pod = stub.pods["pod0001"]
    age = stub.clock.now - pod.created
    pod.course.container += [(age + 3, "one token hf_abcdefghijklmnopqrstuvwxyz012345"), (age + 9, "two")]

    def leave(now: float) -> None:
        pod.terminated = now - pod.created > age + 20

    stub.clock.on_sleep = leave
    followed = logs(follow=True)
    assert len(followed) == 6 and followed[-1].endswith("two") and "hf_abc" not in followed[-2]


def test_stock_shows_ids_prices_and_versions(stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    def stock(text: str | None = None, **options: Any) -> str:
        capsys.readouterr()
        as_json, asked = options.pop("as_json", False), {name: options.pop(name) for name in ("count", "cuda") if name in options}
        question = StockQuestion(**({"cloud": "SECURE", "count": 1} | asked))
        assert run_stock(Search(question, text=text, **options), transport="v2", as_json=as_json) == 0
        return capsys.readouterr().out

    shown = stock()
    assert ADA in shown and "$0.77" in shown and "EU-SE-1 LOW" in shown and "+13.0 +12.8" in shown
    assert L40S not in stock("6000 ada") and "$1.98" in stock("l40s", count=2)
    stub.gpus[1].centers["EU-RO-1"] = {"13.0": False}
    assert L40S not in stock() and L40S in stock(everything=True)
    assert "none of the profile's" in stock(ids=(ADA,), centers=("US-KS-2",))
    assert [g["id"] for g in json.loads(stock(cuda=CudaPin(floor="13.0"), as_json=True))["gpus"]] == [ADA]


def test_cost_is_what_the_provider_billed(serving_pod: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    stub.clock.now = stub.pods["pod0001"].created + 3 * 3600
    assert run_cost([], transport="v2", as_json=False, folder=serving_pod.folder, clock=stub.clock) == 0
    assert capsys.readouterr().out.split("\n")[1].split() == ["nemotron-ada", "pod0001", "$2.31", "$2.31", "$0.77", "3", "h", "00", "min"]


def test_commands_speak_json_about_failures(deploy: Deploy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("RUNPOD_API_KEY")
    for run in (lambda: run_status([], transport="v2", as_json=True), lambda: run_sweep(yes=True, dry_run=False, transport="v2", as_json=True, folder=Path("nowhere"))):
        assert run() == 4
        said = json.loads(capsys.readouterr().out)
        assert said["ok"] is False and said["code"] == "DPL001" and said["fix"]


def test_status_without_a_key_tells_what_is_remembered(serving_pod: Deploy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("RUNPOD_API_KEY")
    profile = serving_pod.wanted.plan.profile
    assert run_status([profile, "nope"], transport="v2", as_json=False, folder=serving_pod.folder, clock=serving_pod.stub.clock) == 4
    out, err = capsys.readouterr()
    assert profile in out and "could not be asked" in out and "gone" not in out and "DPL001" in err
    assert run_status(["nope"], transport="v2", as_json=True, folder=serving_pod.folder, clock=serving_pod.stub.clock) == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["pods"], found["code"]) == (False, [], "DPL001")


def test_a_dry_run_without_a_key_shows_what_the_profile_alone_says(deploy: Deploy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("RUNPOD_API_KEY")
    assert run_deploy(deploy.wanted, Orders(dry_run=True), folder=deploy.folder, clock=deploy.stub.clock) == 4
    out, err = capsys.readouterr()
    assert "candidates, in order" in out and "verdict" in out and "nothing was asked" in err and "DPL001" in err
