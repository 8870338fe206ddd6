"""The older transports through the same deploy, and the official SDK as the witness that the played GraphQL is one."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.deploy.connection import connected
from compiler.deploy.provider import Candidate, CudaPin, PodStatus, StockQuestion, Wanted
from compiler.deploy.provider_errors import KeyMissing, Missing, NoMoney, Refused, Retired, Unsupported
from compiler.deploy.refusals import WrongTarget
from compiler.deploy.runpod_graphql import Word, literal
from tests.runpod_stub import ENDPOINT_KEY, KEY, FakeClock, problem
from tests.runpod_stub_old import OldRunpod
from tests.unit.deploy.conftest import ADA, Deploy
from tests.unit.deploy.servers import Reply, Request, json_reply, serving

BY_ADA = Candidate(ADA, 1, "SECURE", "EU-SE-1", CudaPin(("13.0",)))


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> Iterator[OldRunpod]:
    server = OldRunpod(FakeClock())
    with serving(server):
        for name, value in (("RUNPOD_API_KEY", KEY), ("PODWRIGHT_API_KEY", ENDPOINT_KEY), ("PODWRIGHT_RUNPOD_URL", server.url), ("PODWRIGHT_RUNPOD_PROXY", server.url + "/proxy/{pod}/{port}")):
            monkeypatch.setenv(name, value)
        yield server


def environment(old: OldRunpod, suffix: str = "") -> dict[str, str]:
    return {"RUNPOD_API_KEY": KEY, "PODWRIGHT_RUNPOD_URL": old.url + suffix}


@pytest.mark.parametrize("transport", ["graphql", "v1"])
def test_a_deploy_by_the_older_transports(old: OldRunpod, wanted: Wanted, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, transport: str) -> None:
    if transport == "v1":
        monkeypatch.setenv("PODWRIGHT_RUNPOD_URL", old.url + "/v1")
    deploy = Deploy(old, wanted, tmp_path, capsys)
    ended = deploy(transport=transport)
    assert ended.code == 0, ended.err
    (pod,) = old.living()
    assert pod.body["cmd"] == list(wanted.command) and pod.body["env"]["HF_HOME"] == "/root/.cache/huggingface"
    again = deploy(transport=transport)
    assert again.code == 0 and len(old.pods) == 1, again.err + again.out


def test_graphql_texts_survive_quotes_and_newlines(old: OldRunpod, wanted: Wanted) -> None:
    provider = connected("runpod", environment(old), transport="graphql")
    awkward = Wanted(wanted.plan, ("bash", "-c", 'echo "a\\b"\n\'x\' {{ y }}'), wanted.manifest)
    pod = provider.create(awkward, "podwright-x-000001", BY_ADA)
    assert old.pods[pod.id].body["cmd"] == list(awkward.command)
    assert provider.pod(pod.id).fields == provider.pod_fields(awkward)
    assert literal({"a": [1, True, None, Word("SECURE")], "b": 'x"y'}) == '{a: [1, true, null, SECURE], b: "x\\"y"}'


def test_graphql_refusals_are_told_apart(old: OldRunpod, wanted: Wanted) -> None:
    provider = connected("runpod", environment(old), transport="graphql")
    old.gpus[0].centers["EU-SE-1"] = {"13.0": False}
    with pytest.raises(Refused, match="no longer any instances"):
        provider.create(wanted, "x", BY_ADA)
    old.gpus[0].centers["EU-SE-1"] = {"13.0": True}
    old.balance = 0.0
    with pytest.raises(NoMoney):
        provider.create(wanted, "x", BY_ADA)
    with pytest.raises(Missing):
        provider.pod("nothing")
    with pytest.raises(Unsupported):
        next(provider.logs("x", tail=1))
    offers = provider.catalogue(StockQuestion("SECURE", 1, CudaPin(("13.0",))))
    assert offers is not None and offers[0].prices == {"SECURE": 0.77} and str(offers[0].stock) == "LOW" and not offers[0].centers_known


def test_v1_capacity_is_a_refusal_although_it_says_500(old: OldRunpod, wanted: Wanted) -> None:
    provider = connected("runpod", environment(old, "/v1"), transport="v1")
    old.gpus[0].centers["EU-SE-1"] = {"13.0": False}
    with pytest.raises(Refused, match="no instances currently available"):
        provider.create(wanted, "x", BY_ADA)
    with pytest.raises(Unsupported):
        provider.create(wanted, "x", Candidate(ADA, 1, "SECURE", None, CudaPin(floor="13.0")))


def test_a_pod_that_v1_made_behind_a_500_is_found(old: OldRunpod, wanted: Wanted, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODWRIGHT_RUNPOD_URL", old.url + "/v1")

    def made_after_all(request: Request) -> Reply:
        body = json.loads(request.body)
        old.make({"name": body["name"], "image": body["imageName"], "ports": body["ports"], "env": body["env"], "disk": body["containerDiskInGb"], "gpu": {"id": ADA, "count": 1}, "dataCenterIds": ["EU-SE-1"]})
        return json_reply({"error": "create pod: cannot assign requested address", "status": 500}, 500)

    old.fault("POST", "^/v1/pods$", made_after_all)
    ended = Deploy(old, wanted, tmp_path, capsys)(transport="v1")
    assert ended.code == 0 and len(old.pods) == 1 and "found" in ended.err, ended.err


@pytest.mark.parametrize("transport", ["graphql", "v1"])
def test_a_retired_interface_says_which_one_to_use(old: OldRunpod, transport: str) -> None:
    old.fault("GET", ".", lambda r: problem(410, "gone"), times=9)
    old.fault("POST", ".", lambda r: problem(410, "gone"), times=9)
    with pytest.raises(Retired) as failure:
        connected("runpod", environment(old, "/v1" if transport == "v1" else ""), transport=transport).pods()  # type: ignore[arg-type]
    assert "v2" in failure.value.fix and len(old.requests) == 1


def test_the_official_sdk_works_against_the_played_graphql(old: OldRunpod, wanted: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise our GraphQL and our stub might agree with each other and with nobody else."""
    sdk = pytest.importorskip("runpod")
    monkeypatch.setenv("RUNPOD_API_BASE_URL", old.url)
    sdk = importlib.reload(sdk)
    monkeypatch.setattr(sdk, "api_key", KEY)
    ours = connected("runpod", environment(old), transport="graphql").create(wanted, "podwright-x-000001", BY_ADA)
    theirs = sdk.create_pod("by-sdk", "a/b:c", ADA, cloud_type="SECURE", data_center_id="EU-SE-1", allowed_cuda_versions=["13.0"])
    assert {pod["id"] for pod in sdk.get_pods()} == {ours.id, theirs["id"]}
    assert {pod.id for pod in connected("runpod", environment(old), transport="graphql").pods()} == {ours.id, theirs["id"]}
    sdk.stop_pod(ours.id)
    assert connected("runpod", environment(old), transport="graphql").pod(ours.id).status is PodStatus.EXITED
    sdk.terminate_pod(ours.id)
    sdk.terminate_pod(theirs["id"])
    assert not old.living()


def test_a_key_that_cannot_be_one_and_a_target_without_a_provider() -> None:
    for value in ("", "  ", "two words", "schlüssel", "a\nb"):
        with pytest.raises(KeyMissing):
            connected("runpod", {"RUNPOD_API_KEY": value})
    with pytest.raises(WrongTarget):
        connected("moon", {"RUNPOD_API_KEY": KEY})
    with pytest.raises(WrongTarget):
        connected("runpod", {"RUNPOD_API_KEY": KEY, "PODWRIGHT_RUNPOD_URL": "ftp://x"})
