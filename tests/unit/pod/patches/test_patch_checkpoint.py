"""Repairs of a checkpoint's JSON files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.contract import ConfigPatch
from pod.patches import checkpoint
from pod.patches.outcomes import AlreadyThere, Applied, Outcome, Refused, as_line, of_line

MTP = ConfigPatch("config.json", ("quantization_config", "ignore"), (r"re:.*mtp\..*",), "MTP does not load")


def snapshot(tmp_path: Path, text: str) -> Path:
    """A snapshot whose config.json is a link into the blob store."""
    blob, folder = tmp_path / "blobs" / "abc", tmp_path / "snapshots" / "c0"
    for parent in (blob.parent, folder):
        parent.mkdir(parents=True, exist_ok=True)
    blob.write_text(text, "utf-8")
    (folder / "config.json").symlink_to("../../blobs/abc")
    return folder


def test_it_is_applied_once_and_the_blob_stays_as_it_was(tmp_path: Path) -> None:
    text = json.dumps({"a": "é", "quantization_config": {"ignore": ["lm_head"]}})
    folder = snapshot(tmp_path, text)
    first, second = (checkpoint.apply(MTP, "o/m", folder) for _ in range(2))
    assert isinstance(first, Applied) and isinstance(second, AlreadyThere)
    assert json.loads((folder / "config.json").read_text("utf-8")) == {
        "a": "é",
        "quantization_config": {"ignore": ["lm_head", r"re:.*mtp\..*"]},
    }
    assert (tmp_path / "blobs" / "abc").read_text("utf-8") == text
    assert [p.name for p in folder.iterdir()] == ["config.json"] and (folder / "config.json").stat().st_mode & 0o777 == 0o644


def test_a_list_that_is_missing_is_made_where_its_place_is_there(tmp_path: Path) -> None:
    folder = snapshot(tmp_path, '{"quantization_config": {}}')
    assert isinstance(checkpoint.apply(MTP, "o/m", folder), Applied)
    assert json.loads((folder / "config.json").read_text())["quantization_config"]["ignore"] == [r"re:.*mtp\..*"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "has no object at quantization_config"),
        ('{"quantization_config": null}', "has no object at quantization_config"),
        ('{"quantization_config": {"ignore": "lm_head"}}', "has no list at quantization_config.ignore"),
        ("[]", "holds no JSON object"),
        ("{", "is not JSON"),
        ("\x00", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_file_that_is_not_what_is_expected_is_left_alone(tmp_path: Path, text: str, reason: str) -> None:
    folder = snapshot(tmp_path, text)
    outcome = checkpoint.apply(MTP, "o/m", folder)
    assert isinstance(outcome, Refused) and outcome.reason == f"config.json of o/m {reason}" and not outcome.may_pass
    assert (folder / "config.json").is_symlink() and (folder / "config.json").read_text() == text


def test_what_is_not_on_disk_may_come(tmp_path: Path) -> None:
    absent = checkpoint.apply(MTP, "o/m", None)
    assert isinstance(absent, Refused) and absent.may_pass
    (tmp_path / "empty").mkdir()
    outcome = checkpoint.apply(MTP, "o/m", tmp_path / "empty")
    assert isinstance(outcome, Refused) and outcome.reason == "config.json of o/m does not exist"


@given(st.lists(st.text()), st.lists(st.text(), min_size=1))
def test_every_value_is_there_once_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], wanted: list[str]
) -> None:
    folder = snapshot(tmp_path_factory.mktemp("x"), json.dumps({"a": {"b": before}}))
    patch = ConfigPatch("config.json", ("a", "b"), tuple(wanted), "")
    for _ in range(2):
        checkpoint.apply(patch, "o/m", folder)
    after = json.loads((folder / "config.json").read_text("utf-8"))["a"]["b"]
    assert after[: len(before)] == before and set(wanted) <= set(after)
    assert len(after) <= len(before) + len(wanted)


@pytest.mark.parametrize("outcome", [Applied("a", "b"), AlreadyThere("a", "b"), Refused("a", "b", "c", True)])
def test_an_outcome_survives_its_line(outcome: Outcome) -> None:
    assert of_line(as_line(outcome)) == outcome
    for other in ("", "x", "{}", '{"event": "applied"}', '{"event": "other", "name": "a"}', "[]"):
        assert of_line(other) is None
