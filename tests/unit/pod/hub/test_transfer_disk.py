"""Downloads on a disk that is too small, really: a small tmpfs, or a limit of the kernel on the size of files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod.contract import Fetch
from pod.hub.files import repo_folder, stored_bytes
from pod.weights.presence import presence
from pod.weights.room import room

from tests.hub_server import WRITER, Hub, hub_server
from tests.unit.pod.hub.transfers import REPO, download_command, env_of, impatient, safetensors, transferred

pytestmark = pytest.mark.living

BIG = 48 << 20
FETCH = Fetch("model", REPO, None, None)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server() as server:
        server.create(REPO)
        server.commit(REPO, {"config.json": b"{}", "model.safetensors": safetensors(BIG), "tokenizer.json": b"{}"})
        yield server


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(mount)], capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a tmpfs needs root")
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_what_does_not_fit_is_refused_before_a_byte_is_fetched(hub: Hub, small_disk: Path) -> None:
    done = transferred(download_command(small_disk / "hub"), env_of(hub))
    assert done.outcome.kind == "no-room" and not done.outcome.may_pass, done.text
    assert "0.05 GiB are still to be fetched" in done.outcome.detail and "0.03 GiB free" in done.outcome.detail
    assert stored_bytes(repo_folder(small_disk / "hub", REPO)) == 0


def test_a_reserve_stays_free(hub: Hub, tmp_path: Path) -> None:
    done = transferred(download_command(tmp_path, reserve=1 << 60), env_of(hub))
    assert done.outcome.kind == "no-room", done.text
    assert not presence(tmp_path, FETCH).whole


def test_what_is_already_there_needs_no_room(hub: Hub, tmp_path: Path) -> None:
    assert transferred(download_command(tmp_path), env_of(hub)).outcome.is_ok
    assert transferred(download_command(tmp_path, reserve=1 << 60), env_of(hub)).outcome.is_ok


def test_a_disk_that_fills_up_under_way_is_named_and_more_room_heals_it(hub: Hub, tmp_path: Path) -> None:
    """The kernel's limit on a file's size stands for a disk that somebody else fills: the check before finds room."""
    done = transferred(impatient(tmp_path), env_of(hub), limit="ulimit -f 20000")
    assert done.outcome.kind == "no-room" and not done.outcome.may_pass, done.text
    assert not presence(tmp_path, FETCH).whole
    assert transferred(impatient(tmp_path), env_of(hub)).outcome.is_ok
    assert presence(tmp_path, FETCH).whole


def test_a_disk_that_another_program_fills(hub: Hub, small_disk: Path) -> None:
    """The room is there when it is looked at and gone when it is written to."""
    hub.commit(REPO, {"model.safetensors": safetensors(24 << 20)})
    hub.fail("slow", on="GET /(?!api/)", seconds=2.0, times=1)
    filler = subprocess.Popen(["bash", "-c", f"sleep 1.3; head -c 20M /dev/zero > {small_disk}/other"])
    done = transferred(impatient(small_disk / "hub"), env_of(hub))
    filler.wait()
    assert done.outcome.kind == "no-room", done.text


def test_a_cache_that_cannot_be_written(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("a file where the folder should be")
    done = transferred(download_command(tmp_path / "hub"), env_of(hub))
    assert done.outcome.kind == "error" and not done.outcome.may_pass, done.text


def test_room_is_measured_on_the_disk_that_will_be_written(small_disk: Path) -> None:
    found = room(small_disk / "not" / "yet" / "there", 20 << 20, reserve_bytes=4 << 20)
    assert found.problem is None and found.free_bytes == 32 << 20
    problem = str(room(small_disk, 30 << 20, reserve_bytes=4 << 20).problem)
    assert problem == f"30.0 MiB are needed below {small_disk} and 32.0 MiB are free, of which 4.0 MiB must stay free"
    assert room(small_disk, 0, reserve_bytes=1 << 60).problem is None


def test_the_token_is_never_written_to_disk(hub: Hub, tmp_path: Path) -> None:
    assert transferred(download_command(tmp_path), env_of(hub, WRITER)).outcome.is_ok
    assert subprocess.run(["grep", "-r", WRITER, str(tmp_path)], capture_output=True, check=False).returncode == 1
