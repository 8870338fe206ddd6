"""`podwright image --push`: from this machine's engine to a real registry, and from there into the lock that deploy asks for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from compiler.deploy.offer import Wishes, _image_problems
from compiler.deploy.push import ImageNotPushed, Pushed, locked_image, push_image
from compiler.deploy.registry import RegistryClient
from compiler.load import data_root, image_files
from compiler.pipeline import compiled
from compiler.schema.lock import LockSpec
from tests.integration.docker_stand_ins import docker, needs_docker, removed
from tests.integration.test_registry_digest import registry
from tests.support import specset

__all__ = ["registry"]
pytestmark = [pytest.mark.real_docker, needs_docker]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A tiny image in the engine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    context = tmp_path / "context"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    docker("build", "-t", "podwright-test/push:1", str(context))
    return "podwright-test/push:1"


def test_the_registry_has_it_the_lock_names_it_and_deploy_takes_it(registry: str, image: str, tmp_path: Path) -> None:
    name, events = f"{registry}/me/pod:1", list[str]()
    pushed = push_image(image, name, events.append)
    with RegistryClient() as client:
        assert client.digest(name) == pushed.digest and pushed.reference == f"{name}@{pushed.digest}"
    assert any("Pushed" in event for event in events)
    specs = specset("nemotron-ada", {"profile": {"container.name": name}})
    assert locked_image(specs, pushed, tmp_path, "2026-11-30")
    written = LockSpec.model_validate(yaml.safe_load((tmp_path / "locks" / "nemotron-ada.yaml").read_text("utf-8")))
    assert written.images[name] == pushed.digest and written.repos == specs.lock.repos
    before, after = (compiled(s, image_files(data_root())) for s in (specs, dataclasses.replace(specs, lock=written)))
    assert [p.code for p in _image_problems(before.plan, Wishes())] == ["DPL033"]
    assert _image_problems(after.plan, Wishes()) == [] and after.plan.image.reference == pushed.reference
    assert before.bundle is not None and after.bundle is not None
    # The image holds the manifest that pods of it are created for: the digest must not be part of it.
    assert before.bundle.by_path()["manifest.json"].sha256 == after.bundle.by_path()["manifest.json"].sha256
    removed(name, image)


def test_a_name_that_the_profile_does_not_have_is_not_locked(tmp_path: Path) -> None:
    assert not locked_image(specset("nemotron-ada"), Pushed("ghcr.io/me/other:1", "sha256:" + "1" * 64), tmp_path, "2026-11-30")
    assert not (tmp_path / "locks").exists()


def test_a_registry_that_is_not_there(image: str) -> None:
    with pytest.raises(ImageNotPushed, match="was not pushed") as caught:
        push_image(image, "127.0.0.1:9/me/pod:1")
    assert "network" in caught.value.fix
    removed("127.0.0.1:9/me/pod:1")
