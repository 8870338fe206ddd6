"""The state folder on a disk that is really full."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pod import folders
from pod.folders import StateFolder

from tests.faults.campaign import Skipped
from tests.faults.worlds import filled, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    try:
        with small_disk(tmp_path / "disk", 4):
            yield tmp_path / "disk"
    except Skipped as reason:
        pytest.skip(f"SKIPPED: {reason}")


def test_small_files_are_kept_true_in_their_own_blocks(disk: Path) -> None:
    path = disk / "state.json"
    folders.write_json(path, {"a": 1})
    filled(disk)
    folders.write_json(path, {"a": "longer than before, and still in the same block"})
    assert folders.read_json(path) == {"a": "longer than before, and still in the same block"}
    folders.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    with pytest.raises(OSError) as raised:
        folders.write_json(path, {"a": "x" * 5000})
    assert raised.value.errno == errno.ENOSPC and folders.read_json(path) == {"a": 2}
    assert not list(disk.glob(".*")), "nothing half is left"


def test_the_reserve_makes_room_for_what_must_not_be_forgotten(disk: Path) -> None:
    folder = StateFolder(disk)
    (disk / "manifests").mkdir()
    folders.keep_reserve(folder)
    assert folder.reserve.stat().st_size == folders.RESERVE_BYTES
    filled(disk)
    folders.write(folder.manifest("a" * 64), b"m" * 100_000)
    assert folder.manifest("a" * 64).read_bytes() == b"m" * 100_000 and not folder.reserve.exists()
    folders.keep_reserve(folder)
    filled(disk)
    folders.keep_reserve(folder)
    (disk / "filler").unlink()
    folders.keep_reserve(folder)
    assert folder.reserve.exists() and not list(disk.glob(".*"))
