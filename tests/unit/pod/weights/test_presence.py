"""What counts as whole on disk, on folders as huggingface_hub leaves them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pod.contract import Fetch
from pod.hub.files import hub_cache, repo_folder, wanted, write_listing
from pod.weights.offline import engine_env, offline
from pod.weights.presence import in_gib, presence

from tests.unit.pod.hub.transfers import safetensors

REPO, COMMIT = "owner/model", "0123456789abcdef0123456789abcdef01234567"
SHARDS = {f"model-0000{i}-of-00002.safetensors": safetensors(1000 + i, i) for i in (1, 2)}
INDEX = json.dumps(
    {"metadata": {"total_size": 1}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
).encode()
WHOLE = {**SHARDS, "model.safetensors.index.json": INDEX, "config.json": b"{}", "tokenizer.json": b"{}"}


def fetch(role: str = "model", revision: str | None = COMMIT, expected: int | None = None) -> Fetch:
    return Fetch(role, REPO, revision, expected)  # type: ignore[arg-type]


def cached(cache: Path, files: Mapping[str, bytes], *, links: bool = True, listed: bool = False, main: bool = True) -> Path:
    """A snapshot of these files; gives its folder."""
    folder = repo_folder(cache, REPO)
    snapshot = folder / "snapshots" / COMMIT
    for name, content in files.items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        if links:
            blob = folder / "blobs" / name.replace("/", "_")
            blob.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(content)
            (snapshot / name).symlink_to(os.path.relpath(blob, (snapshot / name).parent))
        else:
            (snapshot / name).write_bytes(content)
    if main:
        (folder / "refs").mkdir(parents=True, exist_ok=True)
        (folder / "refs" / "main").write_text(COMMIT)
    if listed:
        write_listing(folder, COMMIT, {name: len(content) for name, content in files.items()})
    return snapshot


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("revision", [COMMIT, None])
def test_whole(tmp_path: Path, links: bool, listed: bool, revision: str | None) -> None:
    snapshot = cached(tmp_path, WHOLE, links=links, listed=listed)
    found = presence(tmp_path, fetch(revision=revision, expected=10**12))
    total = sum(map(len, WHOLE.values()))
    assert found.whole and found.problem is None and found.snapshot == snapshot and found.present_bytes == total
    assert found.expected_bytes == (total if listed else 10**12)


def test_a_listing_of_the_library_counts_too(tmp_path: Path) -> None:
    cached(tmp_path, WHOLE)
    trees = repo_folder(tmp_path, REPO) / "trees"
    trees.mkdir()
    entries = {name: {"size": 130, "lfs_size": len(content), "blob_id": "x"} for name, content in WHOLE.items()}
    more = {"pytorch_model.bin": {"size": 99, "blob_id": "x"}}
    (trees / f"{COMMIT}.json").write_text(json.dumps({"format_version": 1, "files": {**entries, **more}}))
    assert presence(tmp_path, fetch()).whole, "a second format of the weights is not wanted"
    (trees / f"{COMMIT}.json").write_text(
        json.dumps({"format_version": 1, "files": {**entries, "merges.txt": {"size": 7, "blob_id": "x"}}})
    )
    assert presence(tmp_path, fetch()).problem == "lacks merges.txt"


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.999])
def test_half_a_shard_is_found_by_its_header_or_its_size(tmp_path: Path, listed: bool, share: float) -> None:
    snapshot = cached(tmp_path, WHOLE, listed=listed)
    name = "model-00002-of-00002.safetensors"
    os.truncate(snapshot / name, int(len(SHARDS[name]) * share))
    found = presence(tmp_path, fetch())
    assert not found.whole and name in str(found.problem)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model-00002-of-00002.safetensors": None}, "lacks model-00002-of-00002.safetensors, which its weight index names"),
        ({"config.json": None}, "holds no config.json"),
        ({"model.safetensors.index.json": b"{"}, "lacks a readable model.safetensors.index.json, which its weight index names"),
        ({"model-00001-of-00002.safetensors": b"<html>an error page instead of weights</html>"},
         "has a model-00001-of-00002.safetensors that is damaged: it does not begin with the header of a safetensors file"),
        (dict.fromkeys((*SHARDS, "model.safetensors.index.json")), "holds no weights"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(tmp_path: Path, change: dict[str, bytes | None], problem: str) -> None:
    files = {name: content for name, content in {**WHOLE, **change}.items() if content is not None}
    cached(tmp_path, files)
    assert presence(tmp_path, fetch()).problem == problem


def test_a_link_to_nothing(tmp_path: Path) -> None:
    snapshot = cached(tmp_path, WHOLE)
    (snapshot / "tokenizer.json").resolve().unlink()
    assert presence(tmp_path, fetch()).problem == "lacks tokenizer.json: its link leads nowhere"


def test_a_repaired_json_file_does_not_count_as_damaged(tmp_path: Path) -> None:
    snapshot = cached(tmp_path, WHOLE, listed=True)
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").write_text('{"quantization_config": {"ignore": ["re:.*mtp.*"]}}')
    assert presence(tmp_path, fetch()).whole


def test_absent_and_why(tmp_path: Path) -> None:
    cache = tmp_path / "hub"
    assert presence(cache, fetch(expected=47 << 30)).problem == f"is not there at commit {COMMIT[:12]}"
    cache.mkdir()
    empty = presence(cache, fetch(expected=47 << 30))
    assert empty.problem == f"is not there at commit {COMMIT[:12]}: {cache} is empty" and empty.expected_bytes == 47 << 30
    cached(cache, WHOLE)
    assert presence(cache, fetch(revision="f" * 40)).problem == f"is not there at commit ffffffffffff; other commits are: {COMMIT[:12]}"


def test_a_volume_mounted_at_the_wrong_depth_is_named(tmp_path: Path) -> None:
    cached(tmp_path / "hub" / "hub", WHOLE)
    assert "mounted one level too high" in str(presence(tmp_path / "hub", fetch()).problem)


def test_another_model_or_a_name_without_a_model_never_counts(tmp_path: Path) -> None:
    cached(tmp_path, WHOLE)
    assert not presence(tmp_path, Fetch("model", "owner/other", COMMIT, None)).whole
    assert not presence(tmp_path, Fetch("model", "", None, None)).whole


def test_the_plan_s_size_decides_where_nothing_else_does(tmp_path: Path) -> None:
    cached(tmp_path, {"config.json": b"{}", "pytorch_model.bin": b"x" * 5000})
    assert presence(tmp_path, fetch(expected=5000)).whole
    assert presence(tmp_path, fetch(expected=5 << 30)).problem == "holds 0.0 MiB of 5.0 GiB"
    assert presence(tmp_path, fetch(expected=None)).whole


@pytest.mark.parametrize("name", ["tokenizer.json", "tiktoken.model", "vocab.json"])
def test_a_tokenizer_needs_no_weights(tmp_path: Path, name: str) -> None:
    cached(tmp_path, {name: b"{}"})
    assert presence(tmp_path, fetch("tokenizer")).whole
    assert presence(tmp_path, fetch("draft")).problem == "holds no weights"
    (repo_folder(tmp_path, REPO) / "snapshots" / COMMIT / name).rename(tmp_path / "elsewhere")
    assert presence(tmp_path, fetch("tokenizer")).problem == "holds no tokenizer"


@settings(max_examples=300, deadline=None)
@given(data=st.one_of(st.binary(max_size=64), st.integers(0, 200).map(lambda n: n.to_bytes(8, "little") + b'{"a":' * (n // 5))))
def test_no_content_of_a_shard_is_mistaken_for_a_whole_one(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    cache = tmp_path_factory.mktemp("cache")
    cached(cache, {"config.json": b"{}", "model.safetensors": data})
    assert presence(cache, fetch()).problem is not None


def test_weights_in_other_formats_are_wanted_where_there_is_no_safetensors() -> None:
    names = ["config.json", "pytorch_model.bin", "original/consolidated.00.pth", "README.md"]
    assert wanted(names) == sorted(names)
    assert wanted([*names, "model.safetensors"]) == ["README.md", "config.json", "model.safetensors"]
    assert "pytorch_model.bin" in wanted([*names, "adapter/model.safetensors"])


def test_the_cache_is_where_huggingface_hub_puts_it() -> None:
    assert hub_cache("/root/.cache/huggingface", {}) == Path("/root/.cache/huggingface/hub")
    assert hub_cache("/root/.cache/huggingface", {"HF_HOME": "/v/hf"}) == Path("/v/hf/hub")
    assert hub_cache("/root/.cache/huggingface", {"HF_HOME": "/v/hf", "HF_HUB_CACHE": "/c"}) == Path("/c")


def test_sizes_as_people_read_them() -> None:
    assert (in_gib(47 << 30), in_gib(300 << 20), in_gib(1 << 20)) == ("47.0 GiB", "0.3 GiB", "1.0 MiB")


def test_offline_only_when_all_of_this_engine_is_whole(tmp_path: Path) -> None:
    cached(tmp_path, WHOLE)
    model, draft = presence(tmp_path, fetch()), presence(tmp_path, Fetch("draft", "owner/draft", None, None))
    assert offline([model]).is_offline
    both = offline([model, draft])
    assert not both.is_offline and both.reason == "the Hub is asked: owner/draft is not there"
    assert offline([]).is_offline
    assert offline([model, draft], "on").is_offline and not offline([model], "off").is_offline
    assert offline([model, draft], "auto") == both and offline([model], "") == offline([model])


def test_what_a_former_start_has_left_in_the_environment_is_forgotten(tmp_path: Path) -> None:
    left = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "A": "b"}
    assert engine_env(left, offline([presence(tmp_path, fetch())])) == {"A": "b"}
    assert engine_env({"A": "b"}, offline([])) == {"A": "b", "HF_HUB_OFFLINE": "1"}
