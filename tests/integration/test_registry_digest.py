"""A digest as a real registry and a real Docker engine state it: Debian's `docker-registry`, and `.ci/real_docker.sh`."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.deploy.failures import NotFound
from compiler.deploy.registry import RegistryClient
from tests.integration.parts import docker_host

pytestmark = pytest.mark.real_docker
START_TIMEOUT_S = 20


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("SKIPPED: no docker-registry; apt-get install docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    config = tmp_path / "registry.yml"
    config.write_text(f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\nhttp: {{addr: '{address}'}}\n")
    with subprocess.Popen([program, "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(address)
            yield address
        finally:
            process.terminate()


def _wait_for(address: str) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"docker-registry did not listen within {START_TIMEOUT_S} s")


def test_the_digest_is_the_one_that_the_push_was_given(registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = docker_host()
    if host is None:
        pytest.skip("SKIPPED: no Docker engine answers; start one with .ci/real_docker.sh")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    image = f"{registry}/me/pod:1"

    def docker(*arguments: str) -> str:
        run = subprocess.run(["docker", "--host", host, *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    docker("build", "-q", "-t", image, str(context))
    try:
        docker("push", "-q", image)
        pushed = docker("image", "inspect", "--format", "{{index .RepoDigests 0}}", image).partition("@")[2]
        with RegistryClient() as client:
            assert client.digest(image) == pushed
            assert client.digest(f"{registry}/me/pod@{pushed}") == pushed
            with pytest.raises(NotFound):
                client.digest(f"{registry}/me/pod:2")
    finally:
        docker("image", "rm", "-f", image)
