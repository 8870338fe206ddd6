"""`podwright new model` from a folder and from a Hub: a spec that is valid at once, or one clear refusal and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.command_support import Exit
from tests.checkpoints import dense, small, write_checkpoint
from tests.cli.command import podwright
from tests.hub_server import hub_server

pytestmark = pytest.mark.living



@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = small()
    return write_checkpoint(tmp_path / "files", config, dense(config, "bf16"))


def test_a_model_from_a_folder_is_valid_and_plans(tmp_path: Path, folder: Path) -> None:
    my = tmp_path / "my"
    made = podwright("new", "model", "Org/Small_Model", "--from", folder, "--specs", my)
    assert made.code == Exit.OK
    assert made.out == f"Made {my / 'models/small_model.yaml'}\n"
    assert "CKP008 info: not known from its files: how it calls tools" in made.err
    (my / "profiles").mkdir()
    (my / "profiles/mine.yaml").write_text("kind: profile\nsummary: Mine.\nextends: tiny-cpu\nmodel: small_model\n")
    planned = podwright("plan", "mine", "--specs", my, "--json")
    assert json.loads(planned.out)["model"]["repo"] == "Org/Small_Model"
    again = podwright("new", "model", "Org/Small_Model", "--from", folder, "--specs", my)
    assert again.code == Exit.USAGE and "exists already" in again.err


def test_names_of_their_own(tmp_path: Path, folder: Path) -> None:
    assert podwright("new", "model", "mine", "--from", folder, "--specs", tmp_path / "my").code == Exit.OK
    assert "folder: /models/mine" in (tmp_path / "my/models/mine.yaml").read_text()
    answer = json.loads(podwright("new", "model", "Org/x", "--from", folder, "--as", "other", "--specs", tmp_path / "my", "--json").out)
    assert answer["ok"] is True and answer["file"].endswith("models/other.yaml")
    assert {f["code"] for f in answer["findings"]} == {"CKP008"}


def test_a_bad_checkpoint_is_refused_and_nothing_written(tmp_path: Path, folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "qwen3",\n "hidden_size": NaN}')
    ended = podwright("new", "model", "org/x", "--from", folder, "--specs", tmp_path / "my")
    assert ended.code == Exit.REFUSED
    assert ended.err.startswith("config.json:2:17: CKP001 error: config.json holds NaN")
    assert not (tmp_path / "my").exists()
    answer = json.loads(podwright("new", "model", "org/x", "--from", folder, "--specs", tmp_path / "my", "--json").out)
    assert (answer["ok"], answer["file"], answer["findings"][0]["line"]) == (False, None, 2)
    (folder / "config.json").write_text('{"archi\n')
    assert "config.json is not JSON: invalid control character\n" in podwright("new", "model", "org/x", "--from", folder, "--specs", tmp_path / "my").err


def test_a_cut_header_is_the_only_fault(tmp_path: Path, folder: Path) -> None:
    shard = next(folder.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:500])
    answer = json.loads(podwright("new", "model", "org/x", "--from", folder, "--specs", tmp_path / "my", "--json").out)
    assert [f["code"] for f in answer["findings"] if f["severity"] == "error"] == ["CKP005"]


def test_a_name_that_is_taken_says_which_argument_gives_it(tmp_path: Path) -> None:
    args = ("new", "hardware", "2x4080", "--specs", tmp_path)
    assert podwright(*args).code == Exit.OK
    again = podwright(*args)
    assert (again.code, "for NAME: " in again.err, "Choose another name" in again.err) == (Exit.USAGE, True, True)


@pytest.mark.parametrize("args", [
    ("profile", "x", "--from", "."), ("model", "x", "--revision", "0" * 40), ("model", "a/b/c"), ("profile", "org/x"), ("model", "x", "--as", "y"), ("model", "org/x", "--as", "Y Z"),
    ("model", "org/x", "--from", ".", "--revision", "0" * 40),
])  # fmt: skip
def test_options_that_do_not_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    ended = podwright("new", *args)
    assert ended.code == Exit.USAGE and "Traceback" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_model_from_the_hub(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    with hub_server() as hub:
        hub.create("org/small")
        commit = hub.commit("org/small", {path.name: path.read_bytes() for path in folder.iterdir()})
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert podwright("new", "model", "org/small", "--specs", tmp_path / "my").code == Exit.OK
        text = (tmp_path / "my/models/small.yaml").read_text()
        assert f'revision: "{commit.oid}"' in text or f"revision: {commit.oid}" in text
        ended = podwright("new", "model", "org/none", "--specs", tmp_path / "my")
        assert ended.code == Exit.FAILED and "has no org/none" in ended.err
        answer = json.loads(podwright("new", "model", "org/none", "--specs", tmp_path / "my", "--json").out)
        assert answer["failure"]["failure"] == "NotFound"


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    ended = podwright("new", "model", "org/small", "--specs", tmp_path / "my")
    assert ended.code == Exit.FAILED
    assert "cannot be reached" in ended.err and "Traceback" not in ended.err
    assert not (tmp_path / "my").exists()
