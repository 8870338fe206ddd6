"""What stands in the way of a deploy: each one message that says what to do, nothing left that bills, and never a secret in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.deploy.clock import SystemClock
from compiler.deploy.connection import connected
from compiler.deploy.http_api import ApiClient
from compiler.deploy.pod_queries import run_status
from compiler.deploy.provider_errors import Garbled, Intercepted, ProviderError, Unanswered
from compiler.deploy.state_file import Busy, StateFile, StateUnusable
from tests.runpod_stub import KEY, RunpodStub, problem
from tests.support import ROOT
from tests.unit.deploy.conftest import Deploy
from tests.unit.deploy.servers import Reply, Request, json_reply

HTML = Reply(200, b"<!DOCTYPE html><html><title>Please log in to the hotel</title>", {"Content-Type": "text/html; charset=utf-8"})


def refused(deploy: Deploy, code: str, *words: str) -> None:
    """The deploy ends with one failure of that code, and nothing was made."""
    ended = deploy()
    assert ended.code in (1, 4) and ended.err.count(f"{code} error") == 1, ended.err
    assert ended.err.count(" error: ") == 1, ended.err
    assert all(word in ended.err for word in ("why:", "fix:", *words)), ended.err
    assert KEY not in ended.err + ended.out
    assert not deploy.stub.living()


def test_no_key(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNPOD_API_KEY")
    refused(deploy, "DPL001", "RUNPOD_API_KEY")
    assert not deploy.stub.requests


def test_a_wrong_key(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_WRONGWRONGWRONGWRONGWRONG99")
    refused(deploy, "DPL002", "console")


def test_no_network(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODWRIGHT_RUNPOD_URL", "http://127.0.0.1:9")
    refused(deploy, "DPL004", "cannot be reached")


def test_a_name_that_cannot_be_resolved(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODWRIGHT_RUNPOD_URL", "http://no-such-host.invalid")
    refused(deploy, "DPL004", "cannot be resolved", "DNS")


@pytest.mark.parametrize("answer", [HTML, Reply(302, b"", {"Location": "http://login.example/"}), Reply(407, b"proxy"), Reply(403, b"error code: 1010"), Reply(403, b"<html>blocked</html>")])
def test_somebody_in_between_answers(deploy: Deploy, stub: RunpodStub, answer: Reply) -> None:
    stub.fault("GET", "^/v2/pods$", lambda r: answer)
    refused(deploy, "DPL005")


@pytest.mark.parametrize("answer", [Reply(200, b'{"pods": [{"id": "a"'), Reply(200, b"\xff\xfe\x00"), Reply(200, b"{}", {"Content-Encoding": "gzip"})])
def test_half_an_answer(deploy: Deploy, stub: RunpodStub, answer: Reply) -> None:
    stub.fault("GET", "^/v2/pods$", lambda r: answer, times=9)
    refused(deploy, "DPL006")


def test_an_answer_that_breaks_off(deploy: Deploy, stub: RunpodStub) -> None:
    stub.fault("GET", "^/v2/pods$", lambda r: Reply(200, b'{"pods": []', {"Content-Length": "5000", "Connection": "close"}), times=9)
    refused(deploy, "DPL006")


def test_a_template_name_that_somebody_else_has(deploy: Deploy, stub: RunpodStub) -> None:
    stub.foreign_templates.add("podwright-nemotron-ada")
    refused(deploy, "DPL038", "--no-template")
    assert deploy(template=False).code == 0


def test_a_secret_that_is_missing(deploy: Deploy, stub: RunpodStub) -> None:
    stub.secrets = {"hf-token"}
    refused(deploy, "DPL032", "podwright-api-key")
    stub.secrets = {"podwright-api-key"}  # The other one is optional.
    assert deploy().code == 0


def test_secrets_that_cannot_be_listed_stop_nothing(deploy: Deploy, stub: RunpodStub) -> None:
    stub.secrets = None
    ended = deploy()
    assert ended.code == 0 and "podwright-api-key: cannot be looked up" in ended.out


def test_the_endpoints_key_is_not_at_hand(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PODWRIGHT_API_KEY")
    refused(deploy, "DPL034", "PODWRIGHT_API_KEY")
    monkeypatch.setenv("PODWRIGHT_API_KEY", "schlüssel")
    refused(deploy, "DPL034", "no header can carry")


def test_an_image_that_nobody_can_pull_or_that_is_not_fixed(deploy: Deploy) -> None:
    deploy.change(image={"name": "podwright/nemotron-ada:0.27.1"})
    refused(deploy, "DPL033", "docker push")
    deploy.change(image={"name": "registry.example.com/me/pod:1", "name_digest": None})
    refused(deploy, "DPL033", "podwright lock nemotron-ada")
    assert deploy(unlocked=True).code == 0


def test_a_price_above_the_ceiling_is_not_asked_for(deploy: Deploy, stub: RunpodStub) -> None:
    stub.gpus[0].price = 0.95
    refused(deploy, "DPL020", "$0.95 an hour is above the ceiling of $0.84")
    assert not stub.creates()


def test_a_gpu_id_that_the_catalogue_does_not_have(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(hardware={"runpod_ids": ("NVIDIA RTX 6000 ADA",)})
    refused(deploy, "DPL020", "exact texts")


def test_nobody_says_yes(deploy: Deploy, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = deploy(yes=False)
    assert ended.code == 4 and "DPL035" in ended.err and not stub.creates() and not stub.templates


def test_a_dry_run_changes_nothing(deploy: Deploy, stub: RunpodStub) -> None:
    ended = deploy(dry_run=True, yes=False)
    assert ended.code == 0 and "nothing was created" in ended.err and "stock LOW" in ended.out and "$0.77 an hour, up to $18.48 a day; ceiling $0.84" in ended.out
    assert {r.method for r in stub.requests} == {"GET"} and not deploy.folder.exists()
    shown = deploy(dry_run=True, yes=False, as_json=True)
    assert json.loads(shown.out)["candidates"][0]["usd_per_hour"] == pytest.approx(0.77)


def test_a_state_file_of_another_version_is_not_touched(deploy: Deploy) -> None:
    deploy.folder.mkdir()
    path = deploy.folder / "nemotron-ada.json"
    for content in ('{"version": 2, "pod": {"id": "x"}}', "not json", '{"version": null}', "[]", "\xff"):
        path.write_bytes(content.encode("latin-1"))
        refused(deploy, "DPL024", str(path))
        assert path.read_bytes() == content.encode("latin-1")


def test_two_terminals_at_once(deploy: Deploy) -> None:
    script = f"import sys,time\nfrom pathlib import Path\nfrom compiler.deploy.state_file import StateFile\nwith StateFile('nemotron-ada', Path({str(deploy.folder)!r})).locked():\n    print('held', flush=True)\n    sys.stdin.read()\n"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{ROOT / 'images/runtime'}"}
    with subprocess.Popen([sys.executable, "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        refused(deploy, "DPL025", str(other.pid))
        other.communicate("")
    assert deploy().code == 0


def test_a_pod_deleted_behind_our_back(deploy: Deploy, stub: RunpodStub, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy().code == 0
    stub.pods["pod0001"].terminated = True
    assert run_status([], transport="v2", as_json=False, folder=deploy.folder, clock=stub.clock) == 0
    assert "deleted behind our back" in capsys.readouterr().out
    assert deploy().code == 0 and len(stub.living()) == 1


def test_a_clock_that_is_wrong_is_said(deploy: Deploy, stub: RunpodStub) -> None:
    stub.skew = 7200.0
    ended = deploy()
    assert ended.code == 0 and "this machine's clock is 2 h 00 min behind" in ended.err


def test_a_folder_that_cannot_be_written(deploy: Deploy) -> None:
    deploy.folder.parent.mkdir(exist_ok=True)
    deploy.folder.write_text("a file where the folder belongs")
    with pytest.raises(OSError, match=r"exists|directory"):
        deploy()
    assert not deploy.stub.living()


# --- the client itself


SAID = {"detail": f"the header Authorization: Bearer {KEY} and hf_abcdefghijklmnopqrstuvwxyz012345 are wrong", "errors": [f"$.env.HF_TOKEN: {KEY}"]}


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 410, 413, 418, 422, 429, 500, 503])
def test_no_error_holds_a_secret_that_the_server_repeats(stub: RunpodStub, status: int) -> None:
    stub.fault("GET", "^/v2/pods$", lambda r: Reply(status, json.dumps(SAID).encode(), {"Content-Type": "application/problem+json", "Retry-After": "900"}), times=9)
    client = ApiClient(stub.url, KEY, who="RunPod", clock=stub.clock)
    with pytest.raises(ProviderError) as failure:
        client.get("/v2/pods")
    shown = failure.value.formatted() + json.dumps(failure.value.to_json()) + repr(failure.value) + failure.value.detail
    assert KEY not in shown and "hf_abc" not in shown and "[hidden" in shown


def test_terminal_codes_of_a_server_do_not_reach_the_terminal(stub: RunpodStub) -> None:
    stub.fault("GET", "^/v2/pods$", lambda r: problem(400, "a\x1b[2Jb\nc"))
    with pytest.raises(ProviderError) as failure:
        ApiClient(stub.url, KEY, who="RunPod", clock=stub.clock).get("/v2/pods")
    assert "\x1b" not in str(failure.value) and "\n" not in str(failure.value)


@pytest.mark.parametrize(("answer", "kind"), [(lambda r: None, Garbled), (lambda r: Reply(200, b"[" * 100_000), Garbled), (lambda r: HTML, Intercepted)])
def test_what_cannot_be_read_is_never_a_traceback(stub: RunpodStub, answer: Callable[[Request], Reply | None], kind: type[ProviderError]) -> None:
    stub.fault("GET", "^/v2/pods$", answer, times=9)
    with pytest.raises(kind):
        ApiClient(stub.url, KEY, who="RunPod", clock=stub.clock).get("/v2/pods")


def test_a_server_without_tls_where_tls_is_expected(stub: RunpodStub) -> None:
    with pytest.raises((Unanswered, Intercepted)):
        ApiClient(stub.url.replace("http://", "https://"), KEY, who="RunPod", clock=stub.clock).get("/v2/pods")


def test_pages_are_read_to_the_end_and_a_cursor_that_repeats_is_not_followed(deploy: Deploy, stub: RunpodStub) -> None:
    for number in range(7):
        stub.make({"name": f"other-{number}", "gpu": {"id": "NVIDIA L40S", "count": 1}})
    stub.page = 2
    assert deploy().code == 0
    stub.make({"name": "podwright-nemotron-ada-ffffff", "gpu": {"id": "NVIDIA L40S", "count": 1}})
    assert "DPL031" in deploy().err  # The second one of ours stands on the last page.
    stub.fault("GET", "^/v2/pods$", lambda r: json_reply({"pods": [{"id": "a"}, {"id": "a"}], "pagination": {"nextCursor": "same"}}), times=9)
    before = len(stub.requests)
    provider = connected("runpod", os.environ)
    assert [pod.id for pod in provider.pods()] == ["a"] and len(stub.requests) - before == 2


# --- the state file


def test_a_state_file_survives_a_round_and_odd_content(tmp_path: Path) -> None:
    file = StateFile("x", tmp_path)
    assert file.read().pod is None
    state = file.read().with_sick("a place", 100.0)
    file.write(state)
    assert file.read() == state and state.sick_places(200.0) == ["a place"] and state.sick_places(100.0 + 7 * 3600) == []
    (tmp_path / "x.json").write_text('{"version": 1, "pod": {"id": 5, "created": "soon", "price_usd_h": null, "unknown": 1}, "sick": [null, {"place": "p"}], "intent": 3}')
    read = file.read()
    assert read.pod is not None and read.pod.id == "5" and read.pod.created == 0.0 and read.sick == () and read.intent == "3"
    (tmp_path / "x.json").write_text('{"version": 99}')
    with pytest.raises(StateUnusable):
        file.read()
    with file.locked(), pytest.raises(Busy), StateFile("x", tmp_path).locked():
        pass
    assert SystemClock().time() > 1_700_000_000
