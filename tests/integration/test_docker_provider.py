"""The provider of a box under the desk against a real Docker engine: lives, ports, logs and refusals, with Debian in place of an engine's image."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest

from compiler.deploy.candidates import candidates
from compiler.deploy.docker_engine import engine
from compiler.deploy.docker_provider import DockerProvider, has_pod_of
from compiler.deploy.provider import Pod, PodStatus, Wanted
from compiler.deploy.provider_errors import Missing, Refused
from tests.integration.desk import own_network
from tests.integration.docker_stand_ins import BASE, docker, needs_docker
from tests.support import subject
from tests.unit.pod.living import free_port

pytestmark = [pytest.mark.real_docker, needs_docker]
PROFILE = f"desk{os.getpid()}"
SERVES = "echo first; echo second >&2; trap 'echo bye; exit 0' TERM; sleep 600 & wait"


def wanted(script: str, **deploy: str) -> Wanted:
    plan = subject("tiny-cpu").plan
    image = dataclasses.replace(plan.image, name=BASE, name_digest=None)
    return Wanted(dataclasses.replace(plan, profile=PROFILE, image=image, deploy=dataclasses.replace(plan.deploy, pod_name=PROFILE, **deploy)), ("bash", "-c", script), "m")


@pytest.fixture
def provider() -> Iterator[DockerProvider]:
    name = f"podwright-test-{PROFILE}"
    with own_network(name):
        found = DockerProvider({"PODWRIGHT_API_KEY": "k", "PODWRIGHT_DOCKER_NETWORK": name, "PODWRIGHT_PORT": str(free_port())})
        try:
            yield found
        finally:
            for pod in found.pods():
                if pod.name.startswith(PROFILE):
                    docker("rm", "-f", pod.id)
            docker("volume", "rm", "-f", f"{PROFILE}-cache")
            found.close()


_names = itertools.count(1)


def created(provider: DockerProvider, what: Wanted) -> Pod:
    return provider.create(what, f"{PROFILE}-{next(_names)}", candidates(what.plan)[0])


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_life(provider: DockerProvider) -> None:
    what = wanted(SERVES)
    pod = created(provider, what)
    assert pod.status is PodStatus.RUNNING and dict(pod.fields) == dict(provider.pod_fields(what)) and abs(time.time() - (pod.created or 0)) < 60
    assert provider.endpoint(pod, 8080) == f"http://127.0.0.1:{provider._environment['PODWRIGHT_PORT']}"
    bound = docker("port", pod.id)
    assert bound.strip() == f"8080/tcp -> {provider.endpoint(pod, 8080).removeprefix('http://')}"
    eventually(lambda: len(list(provider.logs(pod.id, tail=10))) == 2)
    lines = list(provider.logs(pod.id, tail=10))
    assert {line.text for line in lines} == {"first", "second"} and all(line.at.startswith("20") for line in lines)
    with engine() as client:
        assert has_pod_of(client, PROFILE) and not has_pod_of(client, "another")
    provider.act(pod, "restart")
    provider.act(pod, "stop")
    assert provider.pod(pod.id).status is PodStatus.EXITED and "bye" in [line.text for line in provider.logs(pod.id, tail=10)]
    provider.act(pod, "start")
    assert provider.pod(pod.id).status is PodStatus.RUNNING and pod.id in [p.id for p in provider.pods()]
    provider.act(pod, "terminate")
    provider.act(pod, "terminate")
    with pytest.raises(Missing):
        provider.pod(pod.id)


def test_a_port_that_is_taken_leaves_no_second_container(provider: DockerProvider) -> None:
    what = wanted(SERVES)
    first = created(provider, what)
    with pytest.raises(Refused) as caught:
        created(provider, what)
    assert "PODWRIGHT_PORT" in caught.value.fix and [p.id for p in provider.pods() if p.name.startswith(PROFILE)] == [first.id]


def test_a_container_that_ends_again_and_again_is_an_error(provider: DockerProvider) -> None:
    pod = created(provider, wanted("exit 3"))
    eventually(lambda: provider.pod(pod.id).status is PodStatus.ERROR)


def test_following_a_log_ends_with_the_container(provider: DockerProvider) -> None:
    pod = created(provider, wanted("for n in 1 2 3; do echo $n; sleep 0.2; done; sleep 600 & wait"))
    stream = provider.logs(pod.id, tail=10, follow=True)
    assert [next(stream).text for _ in range(3)] == ["1", "2", "3"]
    docker("rm", "-f", pod.id)
    assert list(stream) == []
