"""The transports against RunPod's own documents, served by prism: it refuses each request that the document does not allow, and answers
with the document's own examples, which the parsers must take.

Runs where prism is (`.ci/real_prism.sh`) and the documents are (see test_runpod_schema.py).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from compiler.deploy.http_api import ApiClient
from compiler.deploy.provider import Candidate, CudaPin, Pod, PodStatus, StockQuestion, Wanted
from compiler.deploy.provider_errors import Invalid, KeyRefused
from compiler.deploy.runpod_v1 import RunpodV1
from compiler.deploy.runpod_v2 import RunpodV2
from tests.integration.parts import PARTS
from tests.integration.test_runpod_schema import COMMAND, FOLDER, document, variants

PRISM = PARTS / "prism" / "node_modules" / ".bin" / "prism"
L40S = "NVIDIA L40S"
pytestmark = [
    pytest.mark.runpod_schema,
    pytest.mark.skipif(not (FOLDER / "openapi-v2.json").is_file(), reason=f"RunPod's OpenAPI documents are not in {FOLDER}; set PODWRIGHT_RUNPOD_SCHEMAS"),
    pytest.mark.skipif(not PRISM.exists(), reason=f"SKIPPED: no prism in {PARTS}; make it with .ci/real_prism.sh"),
]


@contextlib.contextmanager
def prism(api: str, folder: Path) -> Iterator[str]:
    """A server of the document; its address."""
    file = folder / f"{api}.json"
    file.write_text(json.dumps(document(api)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([str(PRISM), "mock", "--port", str(port), str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(300):
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/", timeout=1)
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="module")
def v2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunpodV2]:
    with prism("v2", tmp_path_factory.mktemp("prism")) as url:
        yield RunpodV2(ApiClient(url, "rpa_" + "x" * 30, who="prism"))


@pytest.fixture(scope="module")
def v1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunpodV1]:
    with prism("v1", tmp_path_factory.mktemp("prism")) as url:
        yield RunpodV1(ApiClient(url, "rpa_" + "x" * 30, who="prism"))


def wanted(name: str) -> Wanted:
    return Wanted(variants()[name], COMMAND, "a" * 64)


@pytest.mark.parametrize("name", ["plain", "full", "floor"])
def test_v2_takes_every_body(v2: RunpodV2, name: str) -> None:
    for pin in (CudaPin(("13.0",)), CudaPin(floor="13.0"), CudaPin()):
        for center in (None, "EU-RO-1"):
            pod = v2.create(wanted(name), "podwright-x-0a1b2c", Candidate(L40S, 1, "SECURE", center, pin))
            assert pod.id and pod.status in PodStatus
    template = v2.write_template(wanted(name), None)
    assert v2.write_template(wanted(name), template).id
    assert v2._sends_arrays


def test_v2_answers_are_read(v2: RunpodV2) -> None:
    assert all(p.id for p in v2.pods())
    assert v2.pod("pod_abc123").id
    assert v2.template("no such name") is None
    for pin in (CudaPin(("13.0", "12.8")), CudaPin(floor="13.0"), CudaPin()):
        offers = v2.catalogue(StockQuestion("SECURE", 1, pin))
        assert offers and all(o.id and o.prices for o in offers)
    assert isinstance(v2.charges("pod_abc123", time.time() - 7200), list)
    assert [line.text for line in v2.logs("pod_abc123", tail=10)] == ["Model loaded."]


@pytest.mark.parametrize("action", ["stop", "start", "restart", "terminate"])
def test_v2_takes_every_action(v2: RunpodV2, action: str) -> None:
    v2.act(Pod("pod_abc123", "x", PodStatus.RUNNING), action)  # type: ignore[arg-type]


def test_v2_does_refuse_what_is_wrong(v2: RunpodV2) -> None:
    with pytest.raises(Invalid):
        v2.api.send("POST", "/v2/pods", body={"name": "x", "dockerArgs": "y"}, again=False)
    stranger = RunpodV2(ApiClient(str(v2.api._http.base_url), "", who="prism"))
    stranger.api._http.headers.pop("Authorization")
    with pytest.raises(KeyRefused):
        stranger.pods()


@pytest.mark.parametrize("name", ["plain", "full"])
def test_v1_takes_every_body(v1: RunpodV1, name: str) -> None:
    bare = dataclasses.replace(wanted(name))
    for center in (None, "EU-RO-1"):
        pod = v1.create(bare, "podwright-x-0a1b2c", Candidate(L40S, 1, "SECURE", center, CudaPin(("13.0",))))
        assert pod.id
    template = v1.write_template(bare, None)
    assert v1.write_template(bare, template).id


def test_v1_answers_are_read(v1: RunpodV1) -> None:
    pods = v1.pods()
    assert pods and all(p.id and p.price_usd_h for p in pods)
    assert v1.pod("xedezhzb9la3ye").id
    for action in ("stop", "start", "terminate"):  # The document has no successful answer to a restart.
        v1.act(pods[0], action)  # type: ignore[arg-type]
