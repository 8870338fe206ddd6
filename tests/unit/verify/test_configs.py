"""Where a config.json comes from, and the repairs that the pod makes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.deploy.failures import DeployError, NotFound, Unreachable
from compiler.deploy.hub import HubClient
from compiler.plan.core import ConfigPatch
from compiler.verify.configs import ModelConfig, NoConfig, hub_config, model_config, patched
from tests.unit.verify.recorded import subject_of


class FakeHub(HubClient):
    """A Hub that answers one file, or fails."""

    def __init__(self, answer: bytes | DeployError) -> None:
        super().__init__("http://127.0.0.1:9")
        self.answer, self.asked = answer, ""

    def content(self, repo: str, file: str, revision: str, limit: int = 0) -> bytes:
        """The one answer."""
        self.asked = f"{repo}/{file}@{revision}"
        if isinstance(self.answer, DeployError):
            raise self.answer
        return self.answer


DOWN = FakeHub(Unreachable("no network", "", ""))


def test_the_hub_goes_before_facts() -> None:
    subject, hub = subject_of("nemotron-ada"), FakeHub(b'{"architectures": ["X"]}')
    config = model_config(subject.model, subject.spec, None, "auto", hub)
    assert (config.source, config.content) == ("hub", {"architectures": ["X"]}) and config.is_own
    assert hub.asked.startswith("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4/config.json@")


def test_without_a_network_the_facts_stand_in() -> None:
    subject = subject_of("nemotron-ada")
    config = model_config(subject.model, subject.spec, None, "auto", DOWN)
    assert config.source == "facts" and not config.is_own


def test_the_hub_alone_fails_with_the_hub() -> None:
    subject = subject_of("nemotron-ada")
    with pytest.raises(NotFound):
        model_config(subject.model, subject.spec, None, "hub", FakeHub(NotFound("gone", "", "")))


def test_a_checkpoint_in_a_folder_never_asks_the_hub() -> None:
    subject, hub = subject_of("swift-2x4090"), FakeHub(b"{}")
    assert not subject.model.fetched
    assert model_config(subject.model, subject.spec, None, "auto", hub).source == "facts" and hub.asked == ""


@pytest.mark.parametrize("answer", [b"{", b"[1]"])
def test_a_broken_answer_is_a_failure(answer: bytes) -> None:
    with pytest.raises(NoConfig):
        hub_config("a/b", None, FakeHub(answer))


def test_repairs_are_made_once_and_only_where_the_list_is() -> None:
    patch = ConfigPatch("config.json", ("quantization_config", "ignore"), ("a", "b"), "why")
    elsewhere = ConfigPatch("tokenizer_config.json", ("quantization_config", "ignore"), ("c",), "why")
    config = ModelConfig("folder", "here", {"quantization_config": {"ignore": ["a"]}})
    assert patched(config, (patch, elsewhere)).content == {"quantization_config": {"ignore": ["a", "b"]}}
    assert config.content == {"quantization_config": {"ignore": ["a"]}}
    assert patched(ModelConfig("folder", "here", {}), (patch,)).content == {}


def test_a_missing_folder_is_a_message(tmp_path: Path) -> None:
    subject = subject_of("nemotron-ada")
    with pytest.raises(NoConfig, match="cannot be read"):
        model_config(subject.model, subject.spec, tmp_path / "none", "auto", DOWN)
