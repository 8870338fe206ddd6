"""A played RunPod for the tests of deploy: over real HTTP, by a clock that only sleeping moves."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.deploy.pod_commands import Orders, run_deploy
from compiler.deploy.provider import Wanted
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from tests.runpod_stub import ENDPOINT_KEY, KEY, FakeClock, RunpodStub
from tests.support import specset
from tests.unit.deploy.servers import serving

DIGEST = "sha256:" + "a" * 64
ADA, L40S = "NVIDIA RTX 6000 Ada Generation", "NVIDIA L40S"


@pytest.fixture(scope="session")
def shipped() -> Wanted:
    """nemotron-ada as it is shipped, with an image that a registry has."""
    result = compiled(specset("nemotron-ada"), image_files(data_root()))
    assert result.bundle is not None
    files = result.bundle.by_path()
    image = dataclasses.replace(result.plan.image, name="registry.example.com/me/pod:1", name_digest=DIGEST)
    return Wanted(dataclasses.replace(result.plan, image=image), tuple(json.loads(files["start-command.json"].content)), files["manifest.json"].sha256)


@pytest.fixture
def wanted(shipped: Wanted) -> Wanted:
    """A fresh reference, for tests that replace parts of it."""
    return shipped


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunpodStub]:
    """The played account, with this process's environment pointing at it."""
    server = RunpodStub(FakeClock())
    with serving(server):
        monkeypatch.setenv("RUNPOD_API_KEY", KEY)
        monkeypatch.setenv("PODWRIGHT_API_KEY", ENDPOINT_KEY)
        monkeypatch.setenv("PODWRIGHT_RUNPOD_URL", server.url)
        monkeypatch.setenv("PODWRIGHT_RUNPOD_PROXY", server.url + "/proxy/{pod}/{port}")
        yield server


@dataclasses.dataclass
class Run:
    """A deploy command as it ended: its exit code and both outputs."""

    code: int
    out: str
    err: str


class Deploy:
    """Runs `podwright deploy` against the stub."""

    def __init__(self, stub: RunpodStub, wanted: Wanted, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.stub, self.wanted, self.folder, self._capsys = stub, wanted, folder, capsys

    def __call__(self, **orders: Any) -> Run:
        self._capsys.readouterr()
        code = run_deploy(self.wanted, Orders(**({"yes": True} | orders)), folder=self.folder, clock=self.stub.clock)
        captured = self._capsys.readouterr()
        return Run(code, captured.out, captured.err)

    def change(self, **parts: Any) -> None:
        """Other values of parts of the plan: deploy={...}, hardware={...}."""
        plan = self.wanted.plan
        changed = {name: dataclasses.replace(getattr(plan, name), **values) for name, values in parts.items()}
        self.wanted = dataclasses.replace(self.wanted, plan=dataclasses.replace(plan, **changed))


@pytest.fixture
def deploy(stub: RunpodStub, wanted: Wanted, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Deploy:
    """The command."""
    return Deploy(stub, wanted, tmp_path / ".podwright", capsys)
