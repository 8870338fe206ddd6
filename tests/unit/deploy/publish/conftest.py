"""A Hub over HTTP, a key, and a compiled profile that publishes there."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from pod.contract import Manifest

from compiler.artifact import Artifact, Bundle
from compiler.deploy.publish import command
from compiler.deploy.publish.command import Orders, Subject, run_publish, run_rollback
from compiler.deploy.publish.repository import Repository
from compiler.deploy.signing import SigningKey, new_key, write_key
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from compiler.plan.core import EnvVar, Plan
from tests.hub_server import WRITER, Hub, hub_server
from tests.support import specset

REPO = "me/pods"
ENDPOINT_KEY = "k3y-for-tests"


class HastyClock:
    """Every two seconds of waiting take a fifth of one."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def time(self) -> float:
        return time.time() + self._ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 10)
        self._ahead += seconds * 0.9


@dataclasses.dataclass
class Ended:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Publisher:
    """Runs publish and rollback of one profile against a Hub."""

    def __init__(self, plan: Plan, files: dict[str, bytes], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.plan, self.image_files, self._folder, self._capsys = plan, files, folder, capsys
        self.manifest: Manifest | None = None
        self.clock = HastyClock()

    def subject(self) -> Subject:
        assert self.manifest is not None
        manifest = Artifact("manifest.json", json.dumps(self.manifest.to_json(), indent=2).encode())
        return Subject(self.plan, Bundle.of(self.plan.profile, [manifest, Artifact("bootstrap.sh", b"#!/bin/bash\n", 0o755)]), self.image_files)

    def __call__(self, manifest: Manifest | None = None, **orders: Any) -> Ended:
        self.manifest = manifest or self.manifest
        return self._ended(run_publish, orders)

    def rollback(self, **orders: Any) -> Ended:
        return self._ended(run_rollback, orders)

    def _ended(self, run: Callable[..., int], orders: dict[str, Any]) -> Ended:
        self._capsys.readouterr()
        code = run(self.subject(), Orders(**({"yes": True} | orders)), folder=self._folder, clock=self.clock)
        said = self._capsys.readouterr()
        return Ended(code, said.out, said.err)


@pytest.fixture(scope="session")
def tiny() -> Plan:
    return compiled(specset("tiny-cpu"), image_files(data_root())).plan


@pytest.fixture(scope="session")
def runtime_files() -> dict[str, bytes]:
    return image_files(data_root())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    with hub_server() as server:
        server.create(REPO)
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", WRITER)
        patient = types.SimpleNamespace(sleep=lambda seconds: None, time=time.time, perf_counter=time.perf_counter, monotonic=time.monotonic)
        monkeypatch.setattr("huggingface_hub.utils._http.time", patient)
        monkeypatch.setattr(command, "Repository", functools.partial(Repository, sleep=lambda seconds: None))
        yield server


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SigningKey:
    made = new_key(datetime.date(2026, 1, 1))
    write_key(made, tmp_path / "signing.key")
    monkeypatch.setenv("PODWRIGHT_SIGNING_KEY", str(tmp_path / "signing.key"))
    monkeypatch.setenv("PODWRIGHT_API_KEY", ENDPOINT_KEY)
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    return made


@pytest.fixture
def publisher(tiny: Plan, runtime_files: dict[str, bytes], key: SigningKey, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Publisher:
    follows = dataclasses.replace(tiny.publish, repo=REPO, path="p/publication.json", poll_seconds=0.5, when="now")
    plan = dataclasses.replace(tiny, profile="p", publish=follows, pod_env=(EnvVar("PODWRIGHT_PUBLIC_KEY", key.public_text),))
    return Publisher(plan, runtime_files, tmp_path / ".podwright", capsys)
