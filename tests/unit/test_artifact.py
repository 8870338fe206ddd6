"""A bundle is written whole or not at all; what is not a bundle is never replaced."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from compiler import artifact
from compiler.artifact import Artifact, Bundle, drift, write_text, written

OLD = Bundle.of("p", [Artifact("bundle.lock", b"old"), Artifact("a/b/c.sh", b"x", 0o755), Artifact("gone", b"")])
NEW = Bundle.of("p", [Artifact("bundle.lock", b"new"), Artifact("a/b/c.sh", b"y"), Artifact("fresh", b"")])


def contents(folder: Path) -> dict[str, bytes]:
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def expected(bundle: Bundle) -> dict[str, bytes]:
    return {a.path: a.content for a in bundle.artifacts}


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a\\b", "a\0b", "..", "a/.."])
def test_paths_stay_inside(path: str) -> None:
    with pytest.raises(ValueError):
        Artifact(path, b"")


def test_bundle_is_sorted_and_without_doubles() -> None:
    assert [a.path for a in OLD.artifacts] == ["a/b/c.sh", "bundle.lock", "gone"]
    assert OLD.by_path()["gone"].text == ""
    with pytest.raises(ValueError, match="share a path"):
        Bundle.of("p", [Artifact("a", b""), Artifact("a", b"x")])


def test_written_replaces_everything(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "p"
    assert written(OLD, folder)
    assert not written(OLD, folder)
    assert (folder / "a/b/c.sh").stat().st_mode & 0o777 == 0o755
    assert written(NEW, folder)
    assert contents(folder) == expected(NEW)
    assert [p.name for p in folder.parent.iterdir()] == ["p"]


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        written(OLD, tmp_path / "p")
    finally:
        os.umask(before)
    modes = {p.relative_to(tmp_path).as_posix(): p.stat().st_mode & 0o777 for p in (tmp_path / "p", *(tmp_path / "p").rglob("*"))}
    assert modes == {"p": 0o755, "p/a": 0o755, "p/a/b": 0o755, "p/a/b/c.sh": 0o755, "p/bundle.lock": 0o644, "p/gone": 0o644}


def test_drift_sees_content_mode_missing_and_foreign_files(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    assert drift(OLD, folder) == ["a/b/c.sh", "bundle.lock", "gone"]
    written(OLD, folder)
    assert drift(OLD, folder) == []
    (folder / "a/b/c.sh").chmod(0o644)
    (folder / "gone").unlink()
    (folder / "foreign").write_text("x")
    assert drift(OLD, folder) == ["a/b/c.sh", "foreign", "gone"]


class Full(Exception):
    """Stands for any end that is not an OSError."""


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), Full()])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_failed_write_leaves_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, at: int) -> None:
    folder = tmp_path / "p"
    written(OLD, folder)
    real, calls = Path.write_bytes, iter(range(100))

    def failing(self: Path, data: bytes) -> int:
        if next(calls) == at:
            raise failure
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(type(failure)):
        written(NEW, folder)
    assert contents(folder) == expected(OLD)
    assert [p.name for p in tmp_path.iterdir()] == ["p"]


@pytest.mark.parametrize("failure", [OSError(errno.EACCES, "Permission denied"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("after", [False, True])
def test_failed_swap_leaves_one_whole_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, at: int, after: bool) -> None:
    folder = tmp_path / "p"
    written(OLD, folder)
    real, calls = Path.rename, iter(range(100))

    def failing(self: Path, target: Path) -> Path:
        call = next(calls)
        if call == at and not after:
            raise failure
        moved = real(self, target)
        if call == at:
            raise failure
        return moved

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(type(failure)):
        written(NEW, folder)
    assert contents(folder) in (expected(OLD), expected(NEW))
    assert [p.name for p in tmp_path.iterdir()] == ["p"]


def test_full_disk(tmp_path: Path) -> None:
    """/dev/full refuses every byte, as a full disk does."""
    folder = tmp_path / "p"
    written(OLD, folder)
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    real = artifact._write_file
    try:
        artifact._write_file = lambda a, f: (f / "full").symlink_to("/dev/full") if a.path == "a/b/c.sh" else (f / "full").write_bytes(b"x" * 10_000)  # type: ignore[assignment,return-value]
        with pytest.raises(OSError, match="No space left"):
            written(NEW, folder)
    finally:
        artifact._write_file = real
    assert contents(folder) == expected(OLD)
    assert [p.name for p in tmp_path.iterdir()] == ["p"]


def test_foreign_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="not a bundle"):
        written(NEW, tmp_path / "p")
    assert contents(tmp_path / "p") == {"thesis.txt": b"years of work"}


def test_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    assert written(NEW, tmp_path / "p")


def test_file_in_the_place_of_the_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("mine")
    with pytest.raises(NotADirectoryError):
        written(NEW, tmp_path / "p")
    assert (tmp_path / "p").read_text() == "mine"


def test_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "p").symlink_to("real")
    written(OLD, tmp_path / "p")
    written(NEW, tmp_path / "p")
    assert (tmp_path / "p").is_symlink()
    assert contents(tmp_path / "real") == expected(NEW)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p", "real"]


def test_write_text_is_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a" / "b.md"
    write_text(file, "é")
    assert file.read_bytes() == "é".encode()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        write_text(file, "new")
    assert contents(tmp_path) == {"a/b.md": "é".encode()}


def test_files_of_the_owner_survive_a_rebuild_and_are_no_drift(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    lock = Artifact("bundle.lock", b'{"outputs": {"a.txt": "", "gone.txt": ""}}')
    written(Bundle.of("p", [Artifact("a.txt", b"1"), Artifact("gone.txt", b"1"), lock]), folder)
    (folder / "secrets.env").write_text("KEY=1\n")
    (folder / "secrets.env").chmod(0o600)
    after = Bundle.of("p", [Artifact("a.txt", b"2"), Artifact("bundle.lock", b'{"outputs": {"a.txt": ""}}')])
    assert drift(after, folder) == ["a.txt", "bundle.lock", "gone.txt"]
    assert written(after, folder)
    assert sorted(f.name for f in folder.iterdir()) == ["a.txt", "bundle.lock", "secrets.env"]
    assert (folder / "secrets.env").stat().st_mode & 0o777 == 0o600
    assert drift(after, folder) == []
