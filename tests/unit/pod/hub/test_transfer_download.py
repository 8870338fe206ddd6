"""Downloads by the real huggingface_hub over real HTTP, with everything that goes wrong on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod.contract import Fetch
from pod.hub import child
from pod.hub.child import Progress, Retry
from pod.hub.files import listing, repo_folder
from pod.weights.presence import presence

from tests.hub_server import READER, WRITER, Hub, hub_server
from tests.unit.pod.hub.transfers import REPO, download_command, env_of, impatient, safetensors, transferred

pytestmark = pytest.mark.living

BIG = 48 << 20
FETCH = Fetch("model", REPO, None, None)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create(REPO)
        server.commit(
            REPO,
            {"config.json": b"{}", "model.safetensors": safetensors(1 << 20), "tokenizer.json": b"{}", "pytorch_model.bin": b"x" * 4096},
        )
        yield server


def half_files(cache: Path) -> list[str]:
    return sorted(file.name for file in repo_folder(cache, REPO).glob("blobs/*.incomplete"))


def test_a_download_is_whole_and_a_second_one_fetches_nothing(hub: Hub, tmp_path: Path) -> None:
    first = transferred(download_command(tmp_path), env_of(hub))
    assert first.outcome.is_ok, first.text
    found = presence(tmp_path, FETCH)
    assert found.whole and found.present_bytes == found.expected_bytes == first.outcome.facts["fetched_bytes"]
    assert found.snapshot == Path(first.outcome.facts["snapshot"])
    before = len(hub.asked("GET .*(resolve|lfs|/file/)"))
    second = transferred(download_command(tmp_path), env_of(hub))
    assert second.outcome.is_ok and second.outcome.facts["fetched_bytes"] == 0
    assert len(hub.asked("GET .*(resolve|lfs|/file/)")) == before


def test_weights_in_a_second_format_are_left_out(hub: Hub, tmp_path: Path) -> None:
    outcome = transferred(download_command(tmp_path), env_of(hub)).outcome
    promised = listing(repo_folder(tmp_path, REPO), Path(outcome.facts["snapshot"]).name)
    assert promised is not None and set(promised) == {".gitattributes", "config.json", "model.safetensors", "tokenizer.json"}
    assert not hub.asked(r"GET .*pytorch_model\.bin")


def test_a_commit_is_fetched_though_the_branch_has_moved_on(hub: Hub, tmp_path: Path) -> None:
    old = hub.store.repo(REPO).head.oid
    hub.commit(REPO, {"config.json": b'{"new": 1}'})
    outcome = transferred(download_command(tmp_path, revision=old), env_of(hub)).outcome
    assert (Path(outcome.facts["snapshot"]) / "config.json").read_bytes() == b"{}"
    assert presence(tmp_path, Fetch("model", REPO, old, None)).whole
    assert not presence(tmp_path, FETCH).whole, "nobody has fetched the branch"


def test_progress_counts_up_to_the_total(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"model.safetensors": safetensors(BIG)})
    told = [line for line in transferred(download_command(tmp_path), env_of(hub)).told if isinstance(line, Progress)]
    counts = [line.done_bytes for line in told]
    assert counts == sorted(counts) and told[-1].done_bytes == told[-1].total_bytes > BIG
    assert str(Progress(3 << 30, 17 << 30, 214.4)) == "3.0 of 17.0 GiB, 214 MiB/s"


def test_a_connection_that_is_cut_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"model.safetensors": safetensors(BIG)})
    hub.fail("half", on="GET /(?!api/).*", times=2)
    done = transferred(download_command(tmp_path), env_of(hub))
    assert done.outcome.is_ok, done.text
    ranges = [seen.headers["range"] for seen in hub.seen if "range" in seen.headers]
    assert ranges and all(r.startswith("bytes=") for r in ranges)
    assert presence(tmp_path, FETCH).whole and half_files(tmp_path) == []


def test_a_killed_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"model.safetensors": safetensors(BIG)})
    hub.fail("half", on="GET /(?!api/).*", times=1)
    hub.fail("silent", on="GET /(?!api/).*", seconds=20, times=1)
    first = subprocess.Popen(
        download_command(tmp_path), env=child.environment(env_of(hub)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    part = part_of(tmp_path, at_least=BIG // 3)
    first.send_signal(signal.SIGKILL)
    first.wait()
    kept = part.stat().st_size
    (part.parent / "0123abcd.deadbeef.incomplete").write_bytes(b"left by a library that was killed")
    hub.clear()
    hub.seen.clear()
    second = transferred(download_command(tmp_path), env_of(hub))
    assert second.outcome.is_ok, second.text
    assert [seen.headers.get("range") for seen in hub.asked("GET /(?!api/)") if "range" in seen.headers] == [f"bytes={kept}-"]
    assert presence(tmp_path, FETCH).whole and half_files(tmp_path) == []


def part_of(cache: Path, at_least: int) -> Path:
    """The half file of a download under way, once it has grown so far."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for file in repo_folder(cache, REPO).glob("blobs/*.podwright.incomplete"):
            if file.stat().st_size >= at_least:
                return file
        time.sleep(0.02)
    raise AssertionError("the download never came so far")


def test_a_half_file_with_wrong_content_is_fetched_anew(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"model.safetensors": safetensors(BIG)})
    sha = hub.store.repo(REPO).head.files["model.safetensors"].sha256
    part = repo_folder(tmp_path, REPO) / f"blobs/{sha}.podwright.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"of another file" * 1000)
    done = transferred(impatient(tmp_path), env_of(hub))
    assert done.outcome.is_ok and any(isinstance(line, Retry) and "sha256" in line.detail for line in done.told), done.text
    assert presence(tmp_path, FETCH).whole


def test_a_half_file_of_another_commit_is_removed_once_all_is_there(hub: Hub, tmp_path: Path) -> None:
    part = repo_folder(tmp_path, REPO) / f"blobs/{'f' * 64}.podwright.incomplete"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 5000)
    assert transferred(download_command(tmp_path), env_of(hub)).outcome.is_ok
    assert half_files(tmp_path) == []


def test_a_blob_of_the_wrong_length_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    transferred(download_command(tmp_path), env_of(hub))
    found = presence(tmp_path, FETCH)
    assert found.snapshot
    blob = (found.snapshot / "model.safetensors").resolve()
    os.truncate(blob, 1000)
    assert "has 1,000 bytes of model.safetensors instead of 1,048,576" in str(presence(tmp_path, FETCH).problem)
    assert transferred(download_command(tmp_path), env_of(hub)).outcome.is_ok
    assert presence(tmp_path, FETCH).whole


def test_a_cut_file_on_a_disk_without_links_is_fetched_again_and_a_repaired_one_is_kept(hub: Hub, tmp_path: Path) -> None:
    transferred(download_command(tmp_path), env_of(hub))
    snapshot = presence(tmp_path, FETCH).snapshot
    assert snapshot
    for name, content in (("model.safetensors", b"half"), ("config.json", b'{"repaired": true}')):
        (snapshot / name).resolve().unlink()
        (snapshot / name).unlink()
        (snapshot / name).write_bytes(content)
    assert transferred(download_command(tmp_path), env_of(hub)).outcome.is_ok
    assert presence(tmp_path, FETCH).whole and (snapshot / "config.json").read_bytes() == b'{"repaired": true}'


@pytest.mark.parametrize(("token", "kind"), [(None, "gated"), (READER, "gated"), ("hf_nobody_knows_this_one", "bad-token")])
def test_gated_and_bad_token(hub: Hub, tmp_path: Path, token: str | None, kind: str) -> None:
    hub.store.repo(REPO).gated = True
    done = transferred(download_command(tmp_path), env_of(hub, token))
    assert done.outcome.kind == kind and not done.outcome.may_pass, done.text
    assert "HF_TOKEN" in done.outcome.fix and (token is None or token not in done.text)


def test_a_granted_token_opens_the_gate(hub: Hub, tmp_path: Path) -> None:
    hub.store.repo(REPO).gated = True
    hub.store.granted.add(READER)
    assert transferred(download_command(tmp_path), env_of(hub, READER)).outcome.is_ok


@pytest.mark.parametrize("token", [None, WRITER])
def test_no_such_repository(hub: Hub, tmp_path: Path, token: str | None) -> None:
    outcome = transferred(download_command(tmp_path, repo="owner/none"), env_of(hub, token)).outcome
    assert outcome.kind == "not-found" and "owner/none" in outcome.detail and not outcome.may_pass
    assert ("no token" in outcome.detail) is (token is None)


@pytest.mark.parametrize("name", ["owner/mo--del", "a/b/c", "../../etc"])
def test_a_name_that_the_hub_cannot_have(hub: Hub, tmp_path: Path, name: str) -> None:
    assert transferred(download_command(tmp_path / "cache", repo=name), env_of(hub)).outcome.kind == "not-found"


def test_no_such_commit(hub: Hub, tmp_path: Path) -> None:
    outcome = transferred(download_command(tmp_path, revision="f" * 40), env_of(hub)).outcome
    assert outcome.kind == "not-found" and "commit" in outcome.detail


def test_a_hub_that_is_gone_is_asked_again_and_then_given_up(tmp_path: Path) -> None:
    with hub_server() as hub:
        env = env_of(hub)
    done = transferred(impatient(tmp_path), env)
    assert done.outcome.kind == "offline" and done.outcome.may_pass, done.text
    assert len([line for line in done.told if isinstance(line, Retry)]) == 2


def test_a_hub_that_answers_500_for_a_while(hub: Hub, tmp_path: Path) -> None:
    hub.fail("status", on="GET /api/models", status=500, times=2)
    done = transferred(impatient(tmp_path), env_of(hub))
    assert done.outcome.is_ok, done.text
    hub.fail("status", on="GET /api/models", status=503)
    outcome = transferred(impatient(tmp_path / "other"), env_of(hub)).outcome
    assert outcome.kind == "error" and outcome.may_pass and "503" in outcome.detail


def test_a_login_page_instead_of_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.fail("html", on="GET /api/")
    outcome = transferred(impatient(tmp_path), env_of(hub)).outcome
    assert outcome.kind == "error" and not presence(tmp_path, FETCH).whole


def test_a_slow_hub_is_waited_for(hub: Hub, tmp_path: Path) -> None:
    hub.fail("slow", seconds=0.4)
    assert transferred(download_command(tmp_path), env_of(hub)).outcome.is_ok


def test_the_offline_switch_of_an_engine_does_not_reach_a_download(hub: Hub, tmp_path: Path) -> None:
    assert transferred(download_command(tmp_path), {**env_of(hub), "HF_HUB_OFFLINE": "1"}).outcome.is_ok


def test_a_repository_has_one_downloader_at_a_time(hub: Hub, tmp_path: Path) -> None:
    hub.commit(REPO, {"model.safetensors": safetensors(BIG)})
    env = child.environment(env_of(hub))
    both = [subprocess.Popen(download_command(tmp_path), env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outcomes = [child.parsed(one.communicate(timeout=60)[0].splitlines()[-1]) for one in both]
    assert sorted(outcome.facts["fetched_bytes"] for outcome in outcomes if isinstance(outcome, child.Outcome))[0] == 0
    assert presence(tmp_path, FETCH).whole
