"""`podwright secrets`: presence, creation, rotation and proof, without a value ever coming out."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pod.contract import Secret
from pod.supervisor.proofs import salted as salted_in_the_pod

from compiler.deploy.provider import Wanted
from compiler.deploy.secret_commands import Orders, run_secrets, salted
from compiler.plan import Plan
from compiler.plan.core import SecretPlan
from tests.runpod_stub import RunpodStub
from tests.unit.pod.living import Pod, free_port, living, toy_manifest

TOKEN, OTHER = "token-" + "a1b2" * 8, "token-" + "z9y8" * 8
KEY = "endpoint-key-for-tests"


@dataclasses.dataclass
class Ended:
    code: int
    out: str
    err: str


class Secrets:
    """Runs the command."""

    def __init__(self, plan: Plan, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.plan, self._folder, self._capsys = plan, folder, capsys
        self.typed: list[str] = []

    def __call__(self, **orders: Any) -> Ended:
        self._capsys.readouterr()
        code = run_secrets(self.plan, Orders(**({"yes": True} | orders)), folder=self._folder, prompt=lambda question: self.typed.pop(0))
        said = self._capsys.readouterr()
        for value in (TOKEN, OTHER, KEY):
            assert value not in said.out + said.err
        return Ended(code, said.out, said.err)


@pytest.fixture
def secrets(stub: RunpodStub, wanted: Wanted, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Secrets:
    plan = dataclasses.replace(wanted.plan, secrets=(
        SecretPlan("HF_TOKEN", "hf-token", True, "the Hub"), SecretPlan("MIRROR_TOKEN", "mirror-token", False, "a mirror"), SecretPlan("PODWRIGHT_API_KEY", "podwright-api-key", True, "the endpoint"),
    ))  # fmt: skip
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("PODWRIGHT_API_KEY", KEY)
    return Secrets(plan, tmp_path / ".podwright", capsys)


def test_listing_and_checking(secrets: Secrets, stub: RunpodStub) -> None:
    listed = secrets()
    assert listed.code == 0 and "hf-token" in listed.out and "absent, optional" in listed.out
    assert secrets(deed="check").code == 0
    assert stub.secrets is not None
    stub.secrets.remove("hf-token")
    assert secrets().code == 0
    missing = secrets(deed="check")
    assert missing.code == 1 and "MISSING" in missing.out
    assert "fix: Export HF_TOKEN, and run `podwright secrets " in missing.err and "--create`" in missing.err
    told = json.loads(secrets(deed="check", as_json=True).out)
    assert told["missing"] == ["hf-token"] and not told["ok"] and told["secrets"][2]["here"] is True


def test_creating_takes_values_from_the_environment_and_makes_only_what_is_missing(secrets: Secrets, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.secrets = {"podwright-api-key"}
    monkeypatch.setenv("HF_TOKEN", f"  {TOKEN}\n")
    ended = secrets(deed="create")
    assert ended.code == 0, ended.err
    assert stub.secret_values == {"hf-token": TOKEN}
    assert "created" in ended.out and "made hf-token" in ended.err
    assert secrets(deed="create").code == 0 and stub.secret_values == {"hf-token": TOKEN}


def test_creating_asks_without_showing(secrets: Secrets, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.secrets = {"podwright-api-key"}
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    secrets.typed = [TOKEN, ""]
    assert secrets(deed="create").code == 0
    assert stub.secret_values == {"hf-token": TOKEN}


@pytest.mark.parametrize("value, said", [("", "no value for HF_TOKEN"), ("two\nlines", "line break"), ("{{ RUNPOD_SECRET_hf-token }}", "a reference")])
def test_a_value_that_is_none_makes_nothing(secrets: Secrets, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    stub.secrets = set()
    monkeypatch.setenv("HF_TOKEN", value)
    ended = secrets(deed="create")
    assert ended.code == 4 and "DPL080" in ended.err and said in ended.err and stub.secrets == set()


def test_a_provider_that_quotes_a_value_is_not_repeated(secrets: Secrets, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.secrets = {"podwright-api-key"}
    secrets.plan = dataclasses.replace(secrets.plan, secrets=(SecretPlan("HF_TOKEN", "runpod-token", True, "the Hub"),))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    ended = secrets(deed="create")
    assert ended.code == 4 and "[hidden: " in ended.err


def test_what_the_key_may_not_do_is_said_with_what_to_click(secrets: Secrets, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.deploy.servers import Reply

    stub.secrets = {"podwright-api-key"}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    stub.faults.append(("POST", "secrets", lambda request: Reply(403, b'{"title": "Forbidden", "status": 403, "detail": "no right"}', {"Content-Type": "application/json"})))
    ended = secrets(deed="create")
    assert ended.code == 4 and "DPL081" in ended.err and "Create Secret" in ended.err and "hf-token" in ended.err


def test_older_interfaces_say_what_to_click(secrets: Secrets, stub: RunpodStub) -> None:
    ended = secrets(deed="create", transport="v1")
    assert ended.code == 4 and "DPL081" in ended.err and "console" in ended.err
    assert "not told" in secrets(transport="v1").out


def test_rotating_changes_and_says_when_it_is_over(secrets: Secrets, stub: RunpodStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", OTHER)
    ended = secrets(deed="rotate", names=("HF_TOKEN",))
    assert ended.code == 0 and stub.secret_values == {"hf-token": OTHER}
    assert "podwright restart nemotron-ada" in ended.out and "--prove" in ended.out
    refused = secrets(deed="rotate", names=("HF_TOKEN",), yes=False)
    assert refused.code == 4 and "DPL035" in refused.err
    assert "has no secret named mirror-token" in secrets(deed="rotate", names=("MIRROR_TOKEN",)).err
    assert "has no secret NOPE" in secrets(deed="rotate", names=("NOPE",)).err


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    manifest = toy_manifest(port=free_port(), endpoint=free_port())
    kept = (Secret("HF_TOKEN", True, "the Hub"), Secret("MIRROR_TOKEN", False, "a mirror"))
    manifest = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, secrets=kept))
    folder = tmp_path / "pod"
    folder.mkdir()
    with living(folder, manifest, {"HF_TOKEN": TOKEN, "API_KEY": KEY}) as running:
        running.serves()
        yield running


def proofs(ended: Ended) -> dict[str, str]:
    return {row["env"]: row["proof"] for row in json.loads(ended.out)["proofs"]}


def test_a_living_pod_proves_what_it_has(secrets: Secrets, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    where = (f"http://127.0.0.1:{pod.manifest.bridge.port}",)
    secrets.plan = dataclasses.replace(
        secrets.plan, secrets=secrets.plan.secrets[:2], bridge=dataclasses.replace(secrets.plan.bridge, api_key_env="PODWRIGHT_API_KEY"),
    )  # fmt: skip
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    good = secrets(deed="prove", endpoints=where, as_json=True)
    assert good.code == 0 and proofs(good) == {"HF_TOKEN": "proven", "MIRROR_TOKEN": "unset"}
    monkeypatch.setenv("HF_TOKEN", OTHER)
    old = secrets(deed="prove", endpoints=where)
    assert old.code == 4 and "has ANOTHER value: restart the pod" in old.out and "DPL082" in old.err
    monkeypatch.delenv("HF_TOKEN")
    assert proofs(secrets(deed="prove", endpoints=where, as_json=True))["HF_TOKEN"] == "not-here"
    monkeypatch.setenv("PODWRIGHT_API_KEY", OTHER)
    locked = secrets(deed="prove", endpoints=where)
    assert locked.code == 4 and "it refuses the key" in locked.out


def test_no_pod_proves_nothing(secrets: Secrets) -> None:
    assert "DPL082" in secrets(deed="prove").err
    gone = secrets(deed="prove", endpoints=("http://127.0.0.1:9",))
    assert gone.code == 4 and "cannot tell" in gone.out


@pytest.mark.parametrize("salt, value", [(b"\0" * 32, "a"), (bytes(range(32)), "ä" * 20)])
def test_both_sides_hash_alike(salt: bytes, value: str) -> None:
    assert salted(salt, value) == salted_in_the_pod(salt, value)


def test_values_of_a_container_here_come_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from compiler.deploy.publish.followers import values_here

    file = tmp_path / "secrets.env"
    file.write_text(f"HF_TOKEN={TOKEN}\n")
    names: Sequence[str] = sorted(values_here("docker", {"PODWRIGHT_SECRETS": str(file), "A": "1"}))
    assert "HF_TOKEN" in names and "A" in names
    assert "HF_TOKEN" not in values_here("runpod", {"PODWRIGHT_SECRETS": str(file)})
