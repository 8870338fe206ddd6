"""A deploy from beginning to end against a played RunPod: what it makes, what it proves, and that nothing is left that bills."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from compiler.deploy.pod_actions import run_action
from compiler.deploy.state_file import State, StateFile
from tests.runpod_stub import ENDPOINT_KEY, HOST_FULL, KEY, Course, RunpodStub, echo_stream, problem
from tests.unit.deploy.conftest import ADA, L40S, Deploy
from tests.unit.deploy.servers import Reply, Request, json_reply


def test_a_pod_is_made_watched_and_proven(deploy: Deploy, stub: RunpodStub) -> None:
    ended = deploy(max_hours=8.0)
    assert ended.code == 0, ended.err
    (pod,) = stub.living()
    state = StateFile("nemotron-ada", deploy.folder).read()
    assert state.pod is not None and state.pod.id == pod.id and state.intent is None
    assert state.pod.image == deploy.wanted.plan.image.reference and state.pod.manifest == deploy.wanted.manifest
    assert state.pod.end_by == pod.created + 8 * 3600
    for phase in ("pulling", "booting", "loading", "serving"):
        assert phase in ended.err
    for name in ("CUDA", "key", "context", "generation"):
        assert f"proven: {name}" in ended.out
    assert "  phases: placed " in ended.out and "cost so far: $0.0" in ended.out and "podwright connect" in ended.out
    assert json.loads((deploy.folder / "nemotron-ada.json").read_text())["version"] == 1
    assert (deploy.folder / ".gitignore").read_text() == "*\n"


def test_no_request_comes_within_two_seconds_of_another_while_waiting(deploy: Deploy, stub: RunpodStub) -> None:
    deploy()
    made = next(i for i, (_, method, path) in enumerate(stub.times) if method == "POST" and path == "/v2/pods")
    waiting = [at for at, method, _ in stub.times[made + 1 :] if method == "GET"]
    proving = next(at for at, _, path in stub.times if path.endswith("/v1/models"))
    gaps = [b - a for a, b in pairwise(waiting) if b < proving]
    assert len(gaps) > 20 and min(gaps) >= 2.0


def bills_nothing(stub: RunpodStub) -> bool:
    """Whether no pod of the account is left that costs."""
    return all(stub.status(pod) in ("EXITED", "TERMINATED") for pod in stub.pods.values())


def followed(deploy: Deploy) -> str | None:
    """The pod that the state file follows."""
    pod = StateFile("nemotron-ada", deploy.folder).read().pod
    return pod.id if pod else None


# --- creating


def test_a_pod_that_a_500_hid_is_found_and_not_made_twice(deploy: Deploy, stub: RunpodStub) -> None:
    def made_after_all(request: Request) -> Reply:
        stub.make(json.loads(request.body))
        return problem(500, "internal error")

    stub.fault("POST", "^/v2/pods$", made_after_all)
    ended = deploy()
    assert ended.code == 0, ended.err
    assert len(stub.pods) == 1 and len(stub.creates()) == 1
    assert "but the pod exists: pod0001" in ended.err and "found" in ended.err


@pytest.mark.parametrize("answer", [lambda r: problem(500, "internal error"), lambda r: None, lambda r: Reply(201, b'{"id": "po'), lambda r: Reply(502, b"<html>bad gateway</html>", {"Content-Type": "text/html"})])
def test_a_create_that_did_not_happen_is_asked_for_again(deploy: Deploy, stub: RunpodStub, answer: Callable[[Request], Reply | None]) -> None:
    stub.fault("POST", "^/v2/pods$", answer, times=2)
    ended = deploy()
    assert ended.code == 0, ended.err
    assert len(stub.creates()) == 3 and len(stub.pods) == 1
    assert {body["name"] for body in stub.creates()} == {stub.pods["pod0001"].body["name"]}
    looks = [i for i, r in enumerate(stub.requests) if r.method == "GET" and r.path == "/v2/pods"]
    creates = [i for i, r in enumerate(stub.requests) if r.method == "POST" and r.path == "/v2/pods"]
    assert all(any(a < look < b for look in looks) for a, b in pairwise(creates))


@pytest.mark.parametrize("course", [Course(), Course(end="exits")])
def test_a_pod_that_shows_up_late_is_not_left_beside_the_second_one(deploy: Deploy, stub: RunpodStub, course: Course) -> None:
    def made_late(request: Request) -> Reply:
        stub.make(json.loads(request.body)).listed_from = stub.clock.now + 60
        return problem(500, "internal error")

    stub.courses = [Course(), course]
    stub.fault("POST", "^/v2/pods$", made_late)
    ended = deploy()
    assert ended.code == (0 if course.end == "serves" else 4) and stub.pods["pod0001"].terminated
    assert len(stub.living()) == (1 if course.end == "serves" else 0) and "by a request that had failed" in ended.err


def test_a_server_that_always_fails_ends_the_attempt_with_nothing_left(deploy: Deploy, stub: RunpodStub) -> None:
    stub.fault("POST", "^/v2/pods$", lambda r: problem(503, "maintenance"), times=9)
    ended = deploy()
    assert ended.code == 4 and ended.err.count("DPL013") == 1
    assert len(stub.creates()) == 3 and not stub.pods and followed(deploy) is None


def test_a_storm_of_429_is_waited_out_as_long_as_it_says(deploy: Deploy, stub: RunpodStub) -> None:
    storm = Reply(429, problem(429, "rate limit exceeded").body, {"Retry-After": "17", "Content-Type": "application/problem+json"})
    stub.fault("POST", "^/v2/pods$", lambda r: storm, times=4)
    ended = deploy()
    assert ended.code == 0, ended.err
    at = [t for t, method, path in stub.times if method == "POST" and path == "/v2/pods"]
    assert [b - a for a, b in pairwise(at)] == [17.0] * 4


def test_a_storm_that_does_not_end_is_given_up(deploy: Deploy, stub: RunpodStub) -> None:
    storm = Reply(429, problem(429, "rate limit exceeded").body, {"Retry-After": "400", "Content-Type": "application/problem+json"})
    stub.fault("POST", "^/v2/pods$", lambda r: storm, times=9)
    ended = deploy()
    assert ended.code == 4 and "DPL012" in ended.err and len(stub.creates()) == 3 and not stub.pods


def test_capacity_on_three_candidates_goes_on_to_the_fourth_in_order(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(hardware={"runpod_ids": (ADA, L40S)}, deploy={"data_centers": ("EU-SE-1", "EU-RO-1"), "price_ceiling_usd_h": 1.0})
    stub.gpus[0].centers["EU-SE-1"] = {"13.0": False}
    ended = deploy()
    assert ended.code == 0, ended.err
    assert [(b["gpu"]["id"], b["dataCenterIds"]) for b in stub.creates()] == [(ADA, ["EU-SE-1"]), (ADA, ["EU-RO-1"]), (L40S, ["EU-SE-1"]), (L40S, ["EU-RO-1"])]
    assert all(b["gpu"]["count"] == 1 and b["gpu"]["allowedCudaVersions"] == ["13.0"] for b in stub.creates())


def test_when_nothing_is_free_it_says_so_with_gpu_place_and_pin(deploy: Deploy, stub: RunpodStub) -> None:
    stub.gpus[0].centers["EU-SE-1"] = {"13.0": False}
    ended = deploy()
    assert ended.code == 4 and "DPL021" in ended.err and not stub.pods
    assert f"1 x {ADA} (SECURE, EU-SE-1, CUDA 13.0)" in ended.err


def test_a_pin_that_no_host_has_is_told_from_a_full_data_center(deploy: Deploy, stub: RunpodStub) -> None:
    stub.gpus[0].centers["EU-SE-1"] = {"13.1": True, "12.8": True}
    ended = deploy()
    assert ended.code == 4 and "DPL022" in ended.err
    assert "they report 12.8, 13.1" in ended.err and "exact list" in ended.err


def test_a_data_center_without_the_card_is_told_from_a_full_one(deploy: Deploy, stub: RunpodStub) -> None:
    stub.gpus[0].centers = {"EU-RO-1": {"13.0": True}}
    ended = deploy()
    assert ended.code == 4 and "DPL023" in ended.err and "EU-RO-1" in ended.err


def test_no_money_in_the_middle_stops_at_once(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(hardware={"runpod_ids": (ADA, L40S)}, deploy={"data_centers": ("EU-SE-1", "EU-RO-1"), "price_ceiling_usd_h": 1.0})
    stub.gpus[0].centers["EU-SE-1"] = {"13.0": False}
    stub.fault("POST", "^/v2/pods$", lambda r: stub.created(json.loads(r.body)), times=2)
    stub.fault("POST", "^/v2/pods$", lambda r: problem(402, "Your balance is too low."))
    ended = deploy()
    assert ended.code == 4 and "DPL011" in ended.err and len(stub.creates()) == 3 and not stub.pods


def test_a_forbidden_candidate_is_skipped(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(hardware={"runpod_ids": (ADA, L40S)}, deploy={"data_centers": (), "price_ceiling_usd_h": 1.0})
    stub.fault("POST", "^/v2/pods$", lambda r: problem(403, "no access to this pool"))
    assert deploy().code == 0
    assert [b["gpu"]["id"] for b in stub.creates()] == [ADA, L40S]


@pytest.mark.parametrize(("status", "code"), [(422, "DPL009"), (413, "DPL009"), (410, "DPL014"), (401, "DPL002")])
def test_what_is_wrong_everywhere_is_asked_once(deploy: Deploy, stub: RunpodStub, status: int, code: str) -> None:
    deploy.change(hardware={"runpod_ids": (ADA, L40S)}, deploy={"data_centers": (), "price_ceiling_usd_h": 1.0})
    stub.fault("POST", "^/v2/pods$", lambda r: problem(status, "Request validation failed.", errors=["$.env: wrong"]), times=5)
    ended = deploy()
    assert ended.code == 4 and code in ended.err and len(stub.creates()) == 1 and followed(deploy) is None


def test_a_rule_that_every_candidate_breaks_is_told_as_it_is(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(hardware={"runpod_ids": (ADA, L40S)}, deploy={"data_centers": (), "price_ceiling_usd_h": 1.0})
    stub.fault("POST", "^/v2/pods$", lambda r: problem(400, "network volume is in another data center"), times=5)
    ended = deploy()
    assert ended.code == 4 and "DPL010" in ended.err and "network volume is in another data center" in ended.err and len(stub.creates()) == 2


def test_an_older_server_gets_the_command_as_stored_text(deploy: Deploy, stub: RunpodStub) -> None:
    stub.knows_arrays = False
    ended = deploy(template=False)
    assert ended.code == 0, ended.err
    held = json.loads(next(iter(stub.pods.values())).body["args"])
    assert held["cmd"] == list(deploy.wanted.command)


# --- the pod's life


def test_a_host_of_another_cuda_is_terminated_at_once_and_another_is_asked_for(deploy: Deploy, stub: RunpodStub) -> None:
    stub.courses = [Course(cuda="12.8"), Course()]
    ended = deploy()
    assert ended.code == 0, ended.err
    first, second = stub.pods.values()
    assert first.terminated and not second.terminated
    assert second.created - first.created < 10 and "DPL040" in ended.err
    assert StateFile("nemotron-ada", deploy.folder).read().sick[0].place == f"{ADA} / SECURE / EU-SE-1"


def test_three_bad_hosts_are_no_accident(deploy: Deploy, stub: RunpodStub) -> None:
    stub.courses = [Course(cuda="12.8") for _ in range(5)]
    ended = deploy()
    assert ended.code == 4 and ended.err.count("DPL040 error") == 1 and len(stub.pods) == 3 and bills_nothing(stub)


def test_a_pod_that_turns_out_dearer_than_the_ceiling_is_given_back(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(hardware={"runpod_ids": (ADA, L40S)}, deploy={"data_centers": (), "price_ceiling_usd_h": 1.0})

    def dear(request: Request) -> Reply:
        stub.make(json.loads(request.body)).price = 1.2
        return json_reply(stub.described(stub.pods["pod0001"]), 201)

    stub.fault("POST", "^/v2/pods$", dear)
    ended = deploy()
    assert ended.code == 0 and "DPL052" in ended.err and stub.pods["pod0001"].terminated and len(stub.living()) == 1


def test_a_floor_admits_newer_hosts(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(deploy={"cuda_versions": (), "min_cuda": "13.0"})
    stub.gpus[0].centers["EU-SE-1"] = {"13.1": True}
    stub.courses = [Course(cuda="13.1")]
    assert deploy().code == 0
    assert stub.creates()[0]["gpu"] == {"id": ADA, "count": 1, "minCudaVersion": "13.0"}


def test_a_pod_that_is_never_placed_is_replaced(deploy: Deploy, stub: RunpodStub) -> None:
    stub.courses = [Course(end="stuck"), Course()]
    ended = deploy()
    assert ended.code == 0 and "DPL041" in ended.err
    first, second = stub.pods.values()
    assert first.terminated and 600 < second.created - first.created < 640


@pytest.mark.parametrize(("course", "code", "words"), [
    (Course(end="exits"), "DPL044", "EXITED"), (Course(end="errors"), "DPL044", "ERROR"),
    (Course(end="pull", system=[(20, "error pulling image: manifest unknown"), (30, "error pulling image: manifest unknown"), (40, "error pulling image: manifest unknown")]), "DPL046", "manifest unknown"),
    (Course(end="pull", system=[(20, "pull access denied for me/pod")]), "DPL045", "registry_auth"),
    (Course(end="loops", system=[(t, "start container") for t in (95, 100, 105)]), "DPL047", "4 times"),
    (Course(end="fails", container=[(100, "[bootstrap] 12:00:01 FATAL the port 8080 is taken by nginx"), (100, "[bootstrap] 12:00:01 FIX   choose another port")]), "DPL048", "choose another port"),
    (Course(end="silent"), "DPL049", "said nothing new"), (Course(end="vanishes"), "DPL050", "does not exist any more"),
])  # fmt: skip
def test_a_start_that_fails_is_told_and_cleaned_up(deploy: Deploy, stub: RunpodStub, course: Course, code: str, words: str) -> None:
    stub.courses = [course]
    ended = deploy()
    assert ended.code == 4 and f"{code} error" in ended.err and words in ended.err
    assert len(stub.pods) == 1 and stub.pods["pod0001"].terminated and followed(deploy) is None


def test_keep_leaves_the_pod_and_says_what_it_costs(deploy: Deploy, stub: RunpodStub) -> None:
    stub.courses = [Course(end="exits")]
    ended = deploy(keep=True)
    assert ended.code == 4 and not stub.pods["pod0001"].terminated and followed(deploy) == "pod0001"
    assert "is kept and bills $0.77 an hour" in ended.err


@pytest.mark.parametrize("line", ["RuntimeError: CUDA error: unspecified launch failure", "No CUDA GPUs are available", "[bootstrap] 12:00:01 FATAL sick host: the driver lists 2 GPUs, torch can use 1"])
def test_a_sick_host_is_left_and_asked_last_from_then_on(deploy: Deploy, stub: RunpodStub, line: str) -> None:
    deploy.change(deploy={"data_centers": ("EU-SE-1", "EU-RO-1"), "price_ceiling_usd_h": 1.0})
    stub.gpus[0].centers["EU-RO-1"] = {"13.0": True}
    stub.courses = [Course(end="sick", container=[(120, line)]), Course()]
    ended = deploy()
    assert ended.code == 0 and "DPL043" in ended.err
    first, second = stub.pods.values()
    assert first.terminated and (first.center, second.center) == ("EU-SE-1", "EU-RO-1")


def test_zero_gpus_after_the_start_is_no_service(deploy: Deploy, stub: RunpodStub) -> None:
    stub.courses = [Course(gpus=0), Course()]
    ended = deploy()
    assert ended.code == 0 and "DPL042" in ended.err and stub.pods["pod0001"].terminated


def test_an_endpoint_that_answers_wrongly_is_no_service(deploy: Deploy, stub: RunpodStub) -> None:
    stub.fault("POST", "/v1/messages$", lambda r: Reply(200, echo_stream({"messages": [{"content": "say nonsense"}]}), {"Content-Type": "text/event-stream"}), times=3)
    ended = deploy()
    assert ended.code == 4 and "DPL051" in ended.err and bills_nothing(stub)


def test_an_illegal_stream_is_no_service(deploy: Deploy, stub: RunpodStub) -> None:
    stub.fault("POST", "/v1/messages$", lambda r: Reply(200, echo_stream(json.loads(r.body)).replace(b"message_stop", b"message_stopp"), {"Content-Type": "text/event-stream"}), times=3)
    ended = deploy()
    assert ended.code == 4 and "not legal" in ended.err and bills_nothing(stub)


def test_another_context_than_the_plans_is_no_service(deploy: Deploy, stub: RunpodStub) -> None:
    deploy.change(engine={"max_model_len": 262144})
    ended = deploy()
    assert ended.code == 4 and "1,048,576 tokens are served; the plan has 262,144" in ended.err and bills_nothing(stub)


def test_an_endpoint_without_a_lock_is_no_service(deploy: Deploy, stub: RunpodStub) -> None:
    stub.fault("GET", "/v1/models$", lambda r: json_reply({"data": []}), times=3)
    ended = deploy()
    assert ended.code == 4 and "a request without the key is answered 200" in ended.err and bills_nothing(stub)


def test_the_provider_may_be_away_for_a_while(deploy: Deploy, stub: RunpodStub) -> None:
    stub.fault("GET", r"^/v2/pods/pod0001$", lambda r: problem(503, "upstream"), times=30)
    ended = deploy()
    assert ended.code == 0 and "looking again" in ended.err and len(stub.pods) == 1


def test_a_storm_while_waiting_is_waited_out_as_long_as_it_says(deploy: Deploy, stub: RunpodStub) -> None:
    storm = Reply(429, problem(429, "rate limit exceeded").body, {"Retry-After": "150", "Content-Type": "application/problem+json"})
    stub.fault("GET", r"^/v2/pods/pod0001$", lambda r: storm)
    assert deploy().code == 0
    at = [t for t, method, path in stub.times if path == "/v2/pods/pod0001" and method == "GET"]
    assert at[1] - at[0] >= 150


def test_unknown_fields_and_nulls_everywhere_change_nothing(deploy: Deploy, stub: RunpodStub) -> None:
    stub.extra = {"ssh": None, "runtime": None, "actions": None, "template": "x", "futureField": [1, {"a": None}], "startedAt": None, "mounts": None}
    assert deploy().code == 0


# --- what exists already


def test_a_second_deploy_takes_over_and_makes_nothing(deploy: Deploy, stub: RunpodStub) -> None:
    assert deploy().code == 0
    ended = deploy()
    assert ended.code == 0 and len(stub.pods) == 1 and len(stub.creates()) == 1 and "nothing is created" in ended.out
    assert len(stub.templates) == 1


def test_a_lost_state_file_is_made_again_by_name(deploy: Deploy, stub: RunpodStub) -> None:
    assert deploy().code == 0
    (deploy.folder / "nemotron-ada.json").unlink()
    assert deploy().code == 0
    assert len(stub.pods) == 1 and followed(deploy) == "pod0001"


def test_another_pod_of_the_same_name_pattern_is_not_ours(deploy: Deploy, stub: RunpodStub) -> None:
    stub.make({"name": "podwright-nemotron-ada-fast-123456", "gpu": {"id": L40S, "count": 1}})
    assert deploy().code == 0
    assert len(stub.living()) == 2


def test_a_pod_made_from_something_else_is_replaced_only_when_told(deploy: Deploy, stub: RunpodStub) -> None:
    assert deploy().code == 0
    deploy.change(image={"name": "registry.example.com/me/pod:2"})
    ended = deploy()
    assert ended.code == 1 and "DPL030" in ended.err and "pod:1@sha256" in ended.err and len(stub.living()) == 1
    ended = deploy(replace=True)
    assert ended.code == 0 and [p.id for p in stub.living()] != ["pod0001"] and len(stub.living()) == 1
    assert next(iter(stub.templates.values()))["image"].startswith("registry.example.com/me/pod:2")


def test_a_replacement_without_capacity_leaves_the_pod_that_serves(deploy: Deploy, stub: RunpodStub) -> None:
    assert deploy().code == 0
    deploy.change(image={"name": "registry.example.com/me/pod:2"})
    stub.gpus[0].centers["EU-SE-1"] = {"13.0": False}
    ended = deploy(replace=True)
    assert ended.code == 4 and "DPL021" in ended.err and not stub.pods["pod0001"].terminated and followed(deploy) == "pod0001"


def test_two_pods_of_a_profile_are_not_guessed_about(deploy: Deploy, stub: RunpodStub) -> None:
    for suffix in ("aaaaaa", "bbbbbb"):
        stub.make({"name": f"podwright-nemotron-ada-{suffix}", "gpu": {"id": ADA, "count": 1}})
    ended = deploy()
    assert ended.code == 1 and "DPL031" in ended.err and not stub.creates()


def test_a_stopped_pod_is_started(deploy: Deploy, stub: RunpodStub) -> None:
    assert deploy().code == 0
    stub.pods["pod0001"].stopped = True
    ended = deploy()
    assert ended.code == 0 and len(stub.pods) == 1 and "started" in ended.err


def test_a_stopped_pod_whose_host_is_full_is_made_anew_after_asking(deploy: Deploy, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert deploy().code == 0
    stub.pods["pod0001"].stopped = True
    stub.fault("POST", "/action$", lambda r: problem(400, HOST_FULL))
    monkeypatch.setattr("compiler.deploy.display.Shown.ask", lambda self, question: "Go on" in question)
    ended = deploy(yes=False)
    assert ended.code == 4 and "DPL035" in ended.err and not stub.pods["pod0001"].terminated
    stub.fault("POST", "/action$", lambda r: problem(400, HOST_FULL))
    monkeypatch.undo()
    for name, value in (("RUNPOD_API_KEY", KEY), ("PODWRIGHT_API_KEY", ENDPOINT_KEY), ("PODWRIGHT_RUNPOD_URL", stub.url), ("PODWRIGHT_RUNPOD_PROXY", stub.url + "/proxy/{pod}/{port}")):
        monkeypatch.setenv(name, value)
    ended = deploy()
    assert ended.code == 0 and stub.pods["pod0001"].terminated and len(stub.living()) == 1


def test_a_pod_that_served_before_is_not_ended_by_a_failed_proof(deploy: Deploy, stub: RunpodStub) -> None:
    assert deploy().code == 0
    stub.fault("POST", "/v1/messages$", lambda r: Reply(500, b"{}"), times=3)
    ended = deploy()
    assert ended.code == 4 and not stub.pods["pod0001"].terminated and "left as it is" in ended.err


# --- interruption


def interrupt_when(stub: RunpodStub, matches: Callable[[], bool]) -> None:
    def look(now: float) -> None:
        if matches():
            stub.clock.on_sleep = lambda now: None
            raise KeyboardInterrupt

    stub.clock.on_sleep = look


@pytest.mark.parametrize("phase", ["PROVISIONING", "STARTING", "RUNNING"])
def test_an_interruption_while_waiting_ends_the_pod(deploy: Deploy, stub: RunpodStub, phase: str) -> None:
    interrupt_when(stub, lambda: bool(stub.pods) and stub.status(stub.pods["pod0001"]) == phase)
    with pytest.raises(KeyboardInterrupt):
        deploy()
    assert stub.pods["pod0001"].terminated and followed(deploy) is None


def test_an_interruption_while_the_answer_is_on_its_way_ends_the_pod(deploy: Deploy, stub: RunpodStub) -> None:
    def made_after_all(request: Request) -> None:
        stub.make(json.loads(request.body))

    stub.fault("POST", "^/v2/pods$", made_after_all)
    interrupt_when(stub, lambda: bool(stub.pods))
    with pytest.raises(KeyboardInterrupt):
        deploy()
    assert stub.pods["pod0001"].terminated and followed(deploy) is None


def test_a_pod_that_cannot_be_terminated_is_said_and_found_by_the_next_command(deploy: Deploy, stub: RunpodStub) -> None:
    stub.fault("DELETE", "^/v2/pods/", lambda r: problem(500, "no"), times=4)
    stub.courses = [Course(end="exits")]
    ended = deploy()
    assert ended.code == 4 and "DPL037" in ended.err and "podwright terminate nemotron-ada" in ended.err and followed(deploy) == "pod0001"
    assert run_action("nemotron-ada", "terminate", pod_id=None, yes=True, transport="v2", as_json=False, folder=deploy.folder, clock=stub.clock) == 0
    assert stub.pods["pod0001"].terminated and followed(deploy) is None


def test_a_crash_between_asking_and_writing_down_is_made_good_by_the_next_deploy(deploy: Deploy, stub: RunpodStub) -> None:
    file = StateFile("nemotron-ada", deploy.folder)
    file.write(State("nemotron-ada", intent="podwright-nemotron-ada-0000ff"))
    assert deploy().code == 0
    assert stub.pods["pod0001"].body["name"] == "podwright-nemotron-ada-0000ff"
