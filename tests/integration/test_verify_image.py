"""`podwright verify` in a real Docker engine, which `.ci/real_docker.sh` starts: the real release in an image, and images that lack it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.verify import image
from compiler.verify.asking import NoAnswer
from compiler.verify.environment import NoEngine
from compiler.verify.image import LABEL, ImageEngine, image_answers
from tests.integration.docker_stand_ins import BASE, docker, made_image, needs_docker, removed
from tests.integration.engine_image import compiler_image, engine_image, tag_of
from tests.integration.parts import docker_host, engine_absent, engine_parts
from tests.support import ROOT

pytestmark = [pytest.mark.real_docker, needs_docker]
RELEASE = "0.27.1"
CARD = {"name": "a card", "capability": "8.9", "bytes": 48 << 30, "count": 1, "nvlink": False}
NO_COMPILER, OTHER, SLOW = (f"podwright-test/verify-{name}:{os.getpid()}" for name in ("bare", "other", "slow"))
_METADATA = (
    "mkdir -p $site/vllm $site/vllm-{version}.dist-info "
    "&& printf 'Metadata-Version: 2.1\\nName: vllm\\nVersion: {version}\\n' >$site/vllm-{version}.dist-info/METADATA"
)
_PYTHON = "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 >/dev/null && rm -rf /var/lib/apt/lists/*"
# A compiled module that asks for the driver, and an engine that never comes back from its import.
_SLOW = (
    "echo 'int cuInit(unsigned); int f(void) { return cuInit(0); }' >/tmp/m.c && gcc -shared -fPIC -o $site/vllm/_C.so /tmp/m.c "
    "&& mkdir $site/vllm/engine && touch $site/vllm/engine/__init__.py && echo 'import time; time.sleep(900)' >$site/vllm/__init__.py"
)


@pytest.fixture(scope="module", autouse=True)
def images() -> Iterator[None]:
    if docker_host() is None:
        pytest.skip("SKIPPED: no Docker engine answers; start one with .ci/real_docker.sh")
    head = "RUN site=/usr/lib/python3/dist-packages && "
    made_image(NO_COMPILER, f"FROM {BASE}\nRUN {_PYTHON}\n{head}{_METADATA.format(version=RELEASE)} && touch $site/vllm/__init__.py\n")
    made_image(OTHER, f"FROM {NO_COMPILER}\n{head}rm -r $site/vllm-* && {_METADATA.format(version='0.26.0')}\n")
    made_image(SLOW, f"FROM {compiler_image()}\nRUN {_PYTHON}\n{head}{_METADATA.format(version=RELEASE)} && {_SLOW}\n")
    yield
    removed(OTHER, NO_COMPILER, SLOW)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert containers() == []


def containers() -> list[str]:
    """Containers of verify, also those that ended."""
    return docker("ps", "-aq", "--filter", f"label={LABEL}").split()


def asked(tag: str, folder: Path) -> object:
    return image_answers(ImageEngine(tag, tag), RELEASE, CARD, [{"id": "one", "model": "/podwright/none", "argv": []}], ROOT, folder)


@pytest.mark.parametrize(
    ("tag", "said", "why"), [
        (BASE, "has no vllm 0.27.1", "no Python has vllm"), (OTHER, "has no vllm 0.27.1", "it has vllm 0.26.0"), (NO_COMPILER, "has no C compiler", "no cc or nm"),
    ],
)  # fmt: skip
def test_an_image_that_cannot_be_asked(tmp_path: Path, tag: str, said: str, why: str) -> None:
    with pytest.raises(NoEngine, match=said) as caught:
        asked(tag, tmp_path)
    assert why in caught.value.why


def test_an_engine_without_an_answer_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PREPARE_S", "IMPORT_S", "QUESTION_S"):
        monkeypatch.setattr(image, name, 5)
    started = time.monotonic()
    with pytest.raises(NoAnswer, match="gave no answer in 15 s"):
        asked(SLOW, tmp_path)
    assert time.monotonic() - started < 60


def test_the_container_reaches_nothing_and_writes_nowhere_but_tmp(tmp_path: Path) -> None:
    script = (
        "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '; for p in / /podwright /usr /tmp; do touch $p/x 2>/dev/null && echo $p; done; "
        "grep CapEff /proc/self/status"
    )
    code, out, err = image._ran(ImageEngine(BASE, BASE), ["bash", "-c", script], {}, tmp_path, 60)
    assert (code, out.split()) == (0, ["lo", "/tmp", "CapEff:", "0000000000000000"]), err


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "compiler", "verify", "nemotron-ada", "--config-from", "facts", "--engine-image", SLOW]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        while not docker("ps", "-q", "--filter", f"label={LABEL}").strip():
            assert time.monotonic() < deadline and running.poll() is None, "no container came up"
            time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in err
    assert containers() == []


@pytest.mark.real_engine
def test_an_image_answers_as_an_environment_does(tmp_path: Path) -> None:
    parts = engine_parts(RELEASE)
    if parts is None:
        pytest.skip(engine_absent(RELEASE))
    if (tag := engine_image(RELEASE)) is None:
        pytest.skip(f"SKIPPED: no image {tag_of(RELEASE)}; make it with python -m tests.integration.engine_image")
    answers: list[dict[str, Any]] = []
    for way in (["--engine-image", tag], ["--engine-python", str(parts.python)]):
        command = [sys.executable, "-m", "compiler", "verify", "ornith-2xa40", "--config-from", "facts", "--json", *way]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        answers.append(json.loads(ended.stdout))
    asked = [answer.pop("asked") for answer in answers]
    assert "image" in asked[0] and "python" in asked[1]
    for answer in answers:
        for engine in answer["engines"]:
            del engine["seconds"]
    assert answers[0] == answers[1] and len(answers[0]["engines"][0]["ranks"]) == 2
