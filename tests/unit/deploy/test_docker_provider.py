"""A box under the desk, its Docker engine played: what a container is made of, and each of the engine's answers as a provider's."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from compiler.deploy import docker_container as made
from compiler.deploy.candidates import candidates
from compiler.deploy.connection import connected, provider_name
from compiler.deploy.docker_provider import DockerProvider
from compiler.deploy.provider import Candidate, Pod, PodStatus, Wanted
from compiler.deploy.provider_errors import Missing, Refused, ServerFailed, Unanswered, WrongState
from compiler.deploy.refusals import ImageNotFixed, SecretMissing, WrongTarget
from compiler.deploy.state_file import StateFile
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from tests.support import specset

KEY = {"PODWRIGHT_API_KEY": "a-key-of-the-endpoint"}
IMAGE = "sha256:" + "1" * 64
WEIGHTS = "PODWRIGHT_MODEL_QWEN36_35B_A3B"


def wanted_of(profile: str) -> Wanted:
    result = compiled(specset(profile), image_files(data_root()))
    assert result.bundle is not None
    files = result.bundle.by_path()
    return Wanted(result.plan, tuple(json.loads(files["start-command.json"].content)), files["manifest.json"].sha256)


@pytest.fixture(scope="module")
def tiny() -> Wanted:
    return wanted_of("tiny-cpu")


@pytest.fixture(scope="module")
def cards() -> Wanted:
    return wanted_of("qwen36-2x4090")


class Played:
    """The engine's API, as far as it is used: containers in memory. The bodies are built by the SDK itself."""

    def __init__(self) -> None:
        import docker

        self._bodies = docker.APIClient(base_url="http://127.0.0.1:9", version="1.41")
        self.containers_: dict[str, dict[str, Any]] = {}
        self.images, self.log, self.fails = {"podwright/tiny-cpu:0.27.1": IMAGE}, b"", {}
        self.driver, self.stopped_in = "json-file", []
        self.events: list[dict[str, Any]] = []

    def _checked(self, name: str) -> None:
        if name in self.fails:
            raise self.fails[name]

    def info(self) -> dict[str, Any]:
        return {"LoggingDriver": self.driver}

    def create_host_config(self, **words: Any) -> Any:
        return self._bodies.create_host_config(**words)

    def create_container_config(self, *words: Any, **more: Any) -> Any:
        return self._bodies.create_container_config(*words, **more)

    def create_container_from_config(self, config: dict[str, Any], name: str) -> dict[str, str]:
        self._checked("create")
        found = f"{len(self.containers_) + 1:064x}"
        self.containers_[found[-12:]] = {"Id": found[-12:] * 5, "Name": f"/{name}", "Config": config, "HostConfig": config["HostConfig"], "Created": "2026-11-30T02:03:09.502287295Z",
                                         "State": {"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"}, "RestartCount": 0}  # fmt: skip
        return {"Id": found[-12:] * 5}

    def start(self, pod_id: str) -> None:
        self._checked("start")
        self.containers_[pod_id]["State"]["Status"] = "running"

    def stop(self, pod_id: str, timeout: int) -> None:
        self._checked("stop")
        self.stopped_in.append(timeout)
        self.inspect_container(pod_id)["State"]["Status"] = "exited"

    def restart(self, pod_id: str, timeout: int) -> None:
        self.start(pod_id)

    def remove_container(self, pod_id: str, force: bool) -> None:
        del self.containers_[pod_id]

    def inspect_container(self, pod_id: str) -> dict[str, Any]:
        self._checked("inspect")
        if pod_id not in self.containers_:
            raise refusal(404, f"No such container: {pod_id}")
        return self.containers_[pod_id]

    def containers(self, all: bool, filters: dict[str, str]) -> list[dict[str, Any]]:
        name, _, value = filters["label"].partition("=")
        return [c for c in self.containers_.values() if c["Config"]["Labels"].get(name) is not None and value in ("", c["Config"]["Labels"][name])]

    def inspect_image(self, name: str) -> dict[str, str]:
        from docker.errors import ImageNotFound

        if name not in self.images:
            raise ImageNotFound("No such image", refusal(404, "no").response)
        return {"Id": self.images[name]}

    def pull(self, name: str, **words: Any) -> Any:
        self.images[name] = IMAGE
        return iter(self.events)

    def logs(self, pod_id: str, **words: Any) -> Any:
        class Stream(list[bytes]):
            def close(self) -> None:
                pass

        return Stream(self.log[i : i + 7] for i in range(0, len(self.log), 7))

    def close(self) -> None:
        self._bodies.close()


def refusal(status: int, text: str) -> Any:
    from docker.errors import APIError
    from requests import Response

    response = Response()
    response.status_code, response.reason, response.url = status, "", "http://engine/"
    return APIError(f"{status}: {text}", response=response, explanation=text)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played()
    monkeypatch.setattr("compiler.deploy.docker_provider.engine_client", lambda: played)
    return played


def only(plan: Any) -> Candidate:
    (found,) = candidates(plan)
    return found


def test_a_container_gets_what_run_sh_gives_it(engine: Played, tiny: Wanted) -> None:
    provider = DockerProvider(KEY)
    pod = provider.create(tiny, "podwright-tiny-cpu-abcdef", only(tiny.plan))
    body = engine.containers_[pod.id]["Config"]
    host = body["HostConfig"]
    assert body["Image"] == tiny.plan.image.reference and body["Cmd"] == list(tiny.command)
    assert host["PortBindings"] == {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}]} and host["IpcMode"] == "host"
    assert host["Mounts"] == [{"Type": "volume", "Source": "podwright-tiny-cpu-cache", "Target": "/root/.cache/vllm"}] and "DeviceRequests" not in host
    assert host["RestartPolicy"] == {"Name": "unless-stopped"} and host["LogConfig"]["Config"] == {"max-size": "50m", "max-file": "3"}
    assert f"PODWRIGHT_API_KEY={KEY['PODWRIGHT_API_KEY']}" in body["Environment" if "Environment" in body else "Env"]
    assert KEY["PODWRIGHT_API_KEY"] not in json.dumps(body["Labels"]) + str(pod)
    assert (pod.name, pod.status, pod.gpu_count, pod.created) == ("podwright-tiny-cpu-abcdef", PodStatus.RUNNING, None, pytest.approx(1796004189.5, abs=1))
    assert provider.endpoint(pod, 8080) == "http://127.0.0.1:8080"
    assert dict(pod.fields) == dict(provider.pod_fields(tiny))


def test_what_was_built_anew_under_the_same_tag_is_another_pod(engine: Played, tiny: Wanted) -> None:
    provider = DockerProvider(KEY)
    before = provider.create(tiny, "n", only(tiny.plan)).fields
    engine.images[tiny.plan.image.reference] = "sha256:" + "2" * 64
    changed = {name for name, value in provider.pod_fields(tiny).items() if before[name] != value}
    assert changed == {"image_id"}


def test_gpus_the_hub_cache_and_the_ports_of_a_profile(engine: Played, cards: Wanted, tmp_path: Path) -> None:
    engine.images[cards.plan.image.reference] = IMAGE
    environment = KEY | {"PODWRIGHT_HF_HOME": str(tmp_path), "HF_TOKEN": "t", WEIGHTS: "/srv/weights", "PODWRIGHT_PORT": "9000", "PODWRIGHT_ADDRESS": "0.0.0.0"}
    provider = DockerProvider(environment)
    pod = provider.create(cards, "n", only(cards.plan))
    host = engine.containers_[pod.id]["HostConfig"]
    assert host["DeviceRequests"] == [{"Driver": "", "Count": 2, "Capabilities": [["gpu"]], "Options": {}}] and pod.gpu_count == 2
    assert {"Type": "bind", "Source": "/srv/weights", "Target": cards.plan.model.folder, "ReadOnly": True} in host["Mounts"]
    with pytest.raises(WrongTarget, match=f"{WEIGHTS} is not set"):
        DockerProvider(KEY).pod_fields(cards)
    assert host["PortBindings"]["8080/tcp"] == [{"HostIp": "0.0.0.0", "HostPort": "9000"}] and provider.endpoint(pod, 8080) == "http://127.0.0.1:9000"


def test_the_hub_cache_is_the_machines_own(cards: Wanted, tmp_path: Path) -> None:
    plan = dataclasses.replace(cards.plan, model=dataclasses.replace(cards.plan.model, folder=None))
    for environment, home in (({"PODWRIGHT_HF_HOME": str(tmp_path)}, str(tmp_path)), ({"HF_HOME": "/srv/hf"}, "/srv/hf"), ({}, str(Path.home() / ".cache/huggingface"))):
        assert made.fields(dataclasses.replace(cards, plan=plan), environment, IMAGE)["mounts"].endswith(f" {home}:{plan.storage.hf_home}")


def test_on_the_machines_own_network_the_endpoint_itself_is_on_loopback(engine: Played, tiny: Wanted) -> None:
    provider = DockerProvider(KEY | {made.NETWORK_ENV: "host", made.PORT_ENV: "9000"})
    pod = provider.create(tiny, "n", only(tiny.plan))
    body = engine.containers_[pod.id]["Config"]
    assert {"PODWRIGHT_LISTEN=127.0.0.1", "VL_PROXY_PORT=9000"} <= set(body["Env"]) and "PortBindings" not in body["HostConfig"]
    assert body["HostConfig"]["NetworkMode"] == "host" and provider.endpoint(pod, 8080) == "http://127.0.0.1:9000"


def test_secrets_come_from_the_environment_or_a_file_and_are_missed_before_anything_is_made(engine: Played, tiny: Wanted, tmp_path: Path) -> None:
    bare = DockerProvider({})
    bare.pod_fields(tiny)
    assert bare.secret_names() == frozenset()
    with pytest.raises(SecretMissing, match="PODWRIGHT_API_KEY has no value"):
        bare.create(tiny, "n", only(tiny.plan))
    assert engine.containers_ == {}
    file = tmp_path / "secrets.env"
    file.write_text("# a comment\nPODWRIGHT_API_KEY=from=the file\n")
    provider = DockerProvider({made.SECRETS_ENV: str(file)})
    provider.pod_fields(tiny)
    assert provider.secret_names() == {"podwright-api-key"}
    assert "PODWRIGHT_API_KEY=from=the file" in engine.containers_[provider.create(tiny, "n", only(tiny.plan)).id]["Config"]["Env"]
    with pytest.raises(WrongTarget, match="cannot be read"):
        DockerProvider({made.SECRETS_ENV: str(tmp_path / "none")}).create(tiny, "m", only(tiny.plan))


def test_an_image_that_is_not_here(engine: Played, tiny: Wanted, cards: Wanted, tmp_path: Path) -> None:
    engine.images.clear()
    with pytest.raises(ImageNotFixed, match="not in this Docker engine"):
        DockerProvider(KEY).pod_fields(tiny)
    image = dataclasses.replace(cards.plan.image, name="registry.example.com/me/pod:1", name_digest=None)
    wanted = dataclasses.replace(cards, plan=dataclasses.replace(cards.plan, image=image))
    said: list[str] = []
    provider = DockerProvider(KEY | {"PODWRIGHT_HF_HOME": str(tmp_path), "HF_TOKEN": "t", WEIGHTS: "/srv/weights"}, said.append)
    engine.events = [{"status": "Pulling"}, {"status": "Pull complete", "id": "0a1b"}]
    assert provider.create(wanted, "n", only(wanted.plan)).status is PodStatus.RUNNING
    assert said == ["pulling registry.example.com/me/pod:1", "pulling registry.example.com/me/pod:1: layer 0a1b is here"]
    engine.images.clear()
    engine.events = [{"error": "manifest unknown"}]
    with pytest.raises(ImageNotFixed, match="cannot be pulled: manifest unknown"):
        provider.create(wanted, "m", only(wanted.plan))


@pytest.mark.parametrize(("said", "cure"), [
    ("driver failed programming external connectivity: Bind for 127.0.0.1:8080 failed: port is already allocated", "PODWRIGHT_PORT"),
    ('could not select device driver "" with capabilities: [[gpu]]', "NVIDIA container toolkit"),
    ("network desk not found", "PODWRIGHT_DOCKER_NETWORK"), ("something new", "Read its reason")])  # fmt: skip
def test_a_container_that_does_not_start_is_removed_and_says_why(engine: Played, tiny: Wanted, said: str, cure: str) -> None:
    engine.fails["start"] = refusal(500, said)
    with pytest.raises(Refused) as caught:
        DockerProvider(KEY).create(tiny, "n", only(tiny.plan))
    assert caught.value.detail == said and cure in caught.value.fix and engine.containers_ == {}


def test_the_life_of_a_container(engine: Played, tiny: Wanted) -> None:
    provider = DockerProvider(KEY)
    pod = provider.create(tiny, "n", only(tiny.plan))
    with pytest.raises(WrongState):
        provider.act(pod, "start")
    provider.act(pod, "restart")
    provider.act(pod, "stop")
    assert provider.pod(pod.id).status is PodStatus.EXITED and engine.stopped_in == [30]
    for action in ("stop", "restart"):
        with pytest.raises(WrongState):
            provider.act(pod, action)  # type: ignore[arg-type]
    provider.act(pod, "start")
    assert [p.id for p in provider.pods()] == [pod.id]
    provider.act(pod, "terminate")
    assert provider.pods() == [] and engine.stopped_in == [30, 30]
    provider.act(pod, "terminate")
    with pytest.raises(Missing):
        provider.act(pod, "stop")
    with pytest.raises(Missing):
        provider.pod(pod.id)


@pytest.mark.parametrize(("state", "restarts", "status"), [
    ("running", 9, PodStatus.RUNNING), ("restarting", 1, PodStatus.STARTING), ("restarting", 3, PodStatus.ERROR), ("created", 0, PodStatus.EXITED),
    ("dead", 0, PodStatus.ERROR), ("removing", 0, PodStatus.TERMINATED), ("a new word", 0, PodStatus.UNKNOWN)])  # fmt: skip
def test_states(engine: Played, tiny: Wanted, state: str, restarts: int, status: PodStatus) -> None:
    provider = DockerProvider(KEY)
    pod = provider.create(tiny, "n", only(tiny.plan))
    engine.containers_[pod.id]["State"]["Status"], engine.containers_[pod.id]["RestartCount"] = state, restarts
    assert provider.pod(pod.id).status is status


def test_lines_are_whole_and_keep_their_time(engine: Played, tiny: Wanted) -> None:
    provider = DockerProvider(KEY)
    pod = provider.create(tiny, "n", only(tiny.plan))
    engine.log = "2026-11-30T02:00:00.1Z [bootstrap] ünten\n2026-11-30T02:00:01.1Z second\r\n2026-11-30T02:00:02.1Z cut".encode()
    lines = list(provider.logs(pod.id, tail=10))
    assert [(line.at[-5:], line.source, line.text) for line in lines] == [("00.1Z", "container", "[bootstrap] ünten"), ("01.1Z", "container", "second"), ("02.1Z", "container", "cut")]
    assert list(provider.logs(pod.id, tail=10, source="system")) == []


def test_an_engine_that_is_away_or_fails(engine: Played, tiny: Wanted, monkeypatch: pytest.MonkeyPatch) -> None:
    from requests.exceptions import ConnectionError as Broken

    provider = DockerProvider(KEY)
    pod = provider.create(tiny, "n", only(tiny.plan))
    for failure, kind in ((Broken("gone"), Unanswered), (refusal(500, "panic"), ServerFailed), (refusal(409, "busy"), WrongState)):
        engine.fails["inspect"] = failure
        with pytest.raises(kind):
            provider.pod(pod.id)
    monkeypatch.undo()
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(Unanswered, match=r"no Docker engine answers at tcp://127.0.0.1:9"):
        DockerProvider(KEY).pods()


def test_a_port_that_is_none(tiny: Wanted) -> None:
    with pytest.raises(WrongTarget, match="no port"):
        made.addresses(tiny.plan, {made.PORT_ENV: "many"})
    assert made.addresses(tiny.plan, {made.ADDRESS_ENV: "::1"}) == {8080: "[::1]:8080"}


def test_which_engine_has_a_lost_pod(engine: Played, tiny: Wanted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compiler.deploy.docker_engine.engine_client", lambda *words: engine)
    assert provider_name(StateFile("tiny-cpu", tmp_path)) == "runpod"
    DockerProvider(KEY).create(tiny, "podwright-tiny-cpu-abcdef", only(tiny.plan))
    assert provider_name(StateFile("tiny-cpu", tmp_path)) == "docker" and provider_name(StateFile("nemotron-ada", tmp_path)) == "runpod"
    assert connected("docker", {}).name == "docker"
    with pytest.raises(WrongTarget, match="no provider"):
        connected("moon", {})


def test_terminating_a_pod_known_by_its_id_alone(engine: Played, tiny: Wanted) -> None:
    provider = DockerProvider(KEY)
    pod = provider.create(tiny, "n", only(tiny.plan))
    provider.act(Pod(pod.id, "", PodStatus.UNKNOWN), "terminate")
    assert engine.containers_ == {}
