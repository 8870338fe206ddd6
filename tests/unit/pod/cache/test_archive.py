"""Packing a cache's folder and unpacking it, and every archive that must be refused with nothing left behind."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pod.cache.archive import pack, unpack
from pod.cache.manifest import NAME, ArchiveError, CacheManifest

from tests.unit.pod.cache.archives import (
    KEY,
    PARTS,
    SEAL,
    SECRET,
    archive_of,
    body_of,
    content_of,
    file_of,
    folder_of,
    manifest_of,
    member,
    write_sealed,
)

FILES = {
    "torch_compile_cache/aa/rank_0/model": b"\x00graph" * 500,
    "torch_compile_cache/aa/x.py": b"print(1)\n",
    "modelinfos/m.json": b"{}",
}


def refused(archive: Path, folder: Path, reason: str, text: str = "", **more: int) -> None:
    """It is refused for this reason, and the folder is as it was."""
    before = content_of(folder) if folder.exists() else None
    with pytest.raises(ArchiveError) as caught:
        unpack(archive, folder, SEAL, KEY, PARTS, reserve=0, **more)
    assert caught.value.reason == reason and text in str(caught.value)
    assert (content_of(folder) if folder.exists() else None) == before
    assert [p.name for p in folder.parent.iterdir() if p.name.startswith(".")] == []


def test_there_and_back(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", FILES)
    (source / "torch_compile_cache/aa/x.py").chmod(0o755)
    packed = pack(source, tmp_path / "x.tar.gz", SEAL, KEY, PARTS, 51.4)
    assert packed.manifest.total_bytes == sum(map(len, FILES.values())) and packed.archive_bytes == (tmp_path / "x.tar.gz").stat().st_size
    manifest = unpack(tmp_path / "x.tar.gz", tmp_path / "b", SEAL, KEY, PARTS, reserve=0)
    assert content_of(tmp_path / "b") == FILES and manifest.cold_start_s == 51.4 and manifest.parts == PARTS
    assert os.access(tmp_path / "b/torch_compile_cache/aa/x.py", os.X_OK) and not os.access(tmp_path / "b/modelinfos/m.json", os.X_OK)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        pack(folder_of(tmp_path / name, dict(sorted(FILES.items(), reverse=name == "b"))), tmp_path / f"{name}.tar.gz", SEAL, KEY, PARTS)
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_only_regular_files_that_last_are_packed(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "a", {**FILES, "x.lock": b"", "y.tmp": b"half", ".podwright-keys.json": b"[]"})
    (source / "link").symlink_to("/etc/passwd")
    (source / "folder-link").symlink_to("/etc")
    os.mkfifo(source / "pipe")
    pack(source, tmp_path / "x.tar.gz", SEAL, KEY, PARTS)
    unpack(tmp_path / "x.tar.gz", tmp_path / "b", SEAL, KEY, PARTS, reserve=0)
    assert content_of(tmp_path / "b") == FILES


def test_what_is_there_already_is_kept_and_the_rest_comes_beside_it(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "x.tar.gz", [member(p, c) for p, c in FILES.items()], manifest_of(FILES))
    target = folder_of(tmp_path / "b", {"torch_compile_cache/aa/x.py": b"mine\n", "torch_compile_cache/bb/y": b"other"})
    unpack(archive, target, SEAL, KEY, PARTS, reserve=0)
    assert content_of(target) == {**FILES, "torch_compile_cache/aa/x.py": b"mine\n", "torch_compile_cache/bb/y": b"other"}


def test_what_a_killed_unpacking_has_left_is_removed(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "x.tar.gz", [member(p, c) for p, c in FILES.items()], manifest_of(FILES))
    folder_of(tmp_path / "b", {".podwright-unpacking-abc/half": b"x" * 100})
    unpack(archive, tmp_path / "b", SEAL, KEY, PARTS, reserve=0)
    assert content_of(tmp_path / "b") == FILES


def test_an_empty_folder_and_one_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, reason, most in (
        (tmp_path / "empty", "empty", 10),
        (tmp_path / "none", "empty", 10),
        (folder_of(tmp_path / "a", FILES), "too-big", 100),
    ):
        with pytest.raises(ArchiveError) as caught:
            pack(folder, tmp_path / "out" / "x.tar.gz", SEAL, KEY, PARTS, max_bytes=most)
        assert caught.value.reason == reason and not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [lambda f: f.write_bytes(b"shorter"), lambda f: f.write_bytes(f.read_bytes() + b"longer"),
                                    lambda f: f.write_bytes(b"z" * f.stat().st_size)])  # fmt: skip
def test_a_file_that_changes_while_it_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]) -> None:
    source = folder_of(tmp_path / "a", FILES)
    real = CacheManifest.to_bytes

    def and_then_change(self: CacheManifest) -> bytes:
        if self.sha256:
            change(source / "torch_compile_cache/aa/x.py")
        return real(self)

    monkeypatch.setattr(CacheManifest, "to_bytes", and_then_change)
    with pytest.raises(ArchiveError) as caught:
        pack(source, tmp_path / "out" / "x.tar.gz", SEAL, KEY, PARTS)
    assert caught.value.reason == "changed" and list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "path", ["../out", "a/../../out", "/etc/cron.d/x", "a//b", "", ".", "..", "a/..", "a\\..\\b", "a\nb", ".podwright-keys.json", "x" * 256]
)
def test_a_path_that_leads_elsewhere(tmp_path: Path, path: str) -> None:
    files = {path: b"owned"}
    refused(
        archive_of(tmp_path / "x.tar.gz", [member(path, b"owned")], manifest_of(files)), tmp_path / "b", "unsafe", "must not be written"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("kind", "link"), [
    (tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "modelinfos/m.json"), (tarfile.CHRTYPE, ""), (tarfile.BLKTYPE, ""),
    (tarfile.FIFOTYPE, ""),
    (tarfile.DIRTYPE, ""), (tarfile.GNUTYPE_SPARSE, ""),
])  # fmt: skip
def test_links_devices_and_folders_are_no_files(tmp_path: Path, kind: bytes, link: str) -> None:
    refused(
        archive_of(tmp_path / "x.tar.gz", [member("a", b"", kind, link)], manifest_of({"a": b""})),
        tmp_path / "b",
        "unsafe",
        "no regular file",
    )


def test_a_link_and_then_a_file_through_it(tmp_path: Path) -> None:
    files = {"a/x": b"owned"}
    members = [member("a", b"", tarfile.SYMTYPE, str(tmp_path / "elsewhere")), member("a/x", b"owned")]
    (tmp_path / "elsewhere").mkdir()
    refused(archive_of(tmp_path / "x.tar.gz", members, manifest_of(files)), tmp_path / "b", "unsafe")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_in_the_target_is_not_followed(tmp_path: Path) -> None:
    """Whoever could write into the pod's cache folder must not be able to send a later archive elsewhere."""
    archive = archive_of(tmp_path / "x.tar.gz", [member(p, c) for p, c in FILES.items()], manifest_of(FILES))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/torch_compile_cache").symlink_to(tmp_path / "elsewhere")
    unpack(archive, tmp_path / "b", SEAL, KEY, PARTS, reserve=0)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(("members", "text"), [
    ([member("a", b"12")], "where its manifest has"),
    ([member("b", b"1")], "where its manifest has"),
    ([member("a", b"1"), member("b", b"1")], "does not list"),
    ([member("a", b"2")], "another content"),
    ([], "ends before a"),
])  # fmt: skip
def test_what_the_manifest_does_not_promise(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], text: str) -> None:
    reason = "damaged" if text in ("another content", "ends before a") else "unsafe"
    refused(archive_of(tmp_path / "x.tar.gz", members, manifest_of({"a": b"1"})), tmp_path / "b", reason, text)


def test_a_foreign_key_is_explained(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "x.tar.gz", [member("a", b"1")], manifest_of({"a": b"1"}, "f" * 16))
    with pytest.raises(
        ArchiveError, match=r"is for key ffffffffffffffff and not 0123456789abcdef: pod.driver is '580' there and '570' here"
    ):
        unpack(archive, tmp_path / "b", SEAL, KEY, {**PARTS, "pod.driver": "570"}, reserve=0)


@pytest.mark.parametrize("first", [
    None, b"", b"[]", b"{", b'{"format": 2}', b'{"format": 1}', manifest_of({"a": b"1"}).to_bytes().replace(b'"size":1', b'"size":2'),
    manifest_of({"a": b"1"}).to_bytes()[:-1], b'{"format": 1, "format": 1}',
])  # fmt: skip
def test_a_manifest_that_is_none(tmp_path: Path, first: bytes | None) -> None:
    archive = archive_of(tmp_path / "x.tar.gz", [member("a", b"1")], first)
    with pytest.raises(ArchiveError) as caught:
        unpack(archive, tmp_path / "b", SEAL, KEY, PARTS, reserve=0)
    assert caught.value.reason in ("damaged", "foreign") and not (tmp_path / "b").exists()


def test_names_twice_and_a_file_that_is_also_a_folder(tmp_path: Path) -> None:
    twice = manifest_of({"a": b"1"})
    double = archive_of(tmp_path / "x.tar.gz", [member("a", b"1")] * 2, manifest_with(twice, ("a", "a")))
    refused(double, tmp_path / "b", "unsafe", "twice")
    refused(
        archive_of(tmp_path / "y.tar.gz", [], manifest_with(twice, ("a", "a/b"))), tmp_path / "b", "unsafe", "as a file and as a folder"
    )


def manifest_with(like: CacheManifest, paths: tuple[str, ...]) -> CacheManifest:
    from pod.cache.manifest import sealed

    return sealed(like.key, like.parts, 0.0, tuple(file_of(path, b"1") for path in paths))


def test_a_bomb_that_says_its_size(tmp_path: Path) -> None:
    refused(
        archive_of(tmp_path / "x.tar.gz", [], manifest_of({"a": b"0" * 5000})), tmp_path / "b", "too-big", "5,000 bytes", max_bytes=4999
    )


def test_a_bomb_that_hides_its_size(tmp_path: Path) -> None:
    """After the last file come gigabytes of zeros, a thousandth of that in the archive."""
    archive = archive_of(tmp_path / "x.tar.gz", [member("a", b"1")], manifest_of({"a": b"1"}))
    write_sealed(archive, body_of(archive) + gzip.compress(b"\0" * (16 << 20), 1) * 64)
    assert archive.stat().st_size < 8 << 20
    refused(archive, tmp_path / "b", "too-big", "more than its manifest promises")


def test_a_bomb_in_the_tar_s_own_headers(tmp_path: Path) -> None:
    """A pax header may claim any size, and tarfile reads it into memory."""
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 2 << 30
    raw = info.tobuf(tarfile.USTAR_FORMAT)
    write_sealed(tmp_path / "x.tar.gz", gzip.compress(raw + bytes(160 << 20), 1))
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))\n"
        "from pathlib import Path; from pod.cache.archive import unpack; from pod.cache.seal import Seal\n"
        f"try: unpack(Path(sys.argv[1]), Path(sys.argv[2]), Seal.of({SECRET!r}), 'k', {{}})\n"
        "except Exception as error: print(type(error).__name__, getattr(error, 'reason', ''))"
    )
    runtime = Path(__file__).resolve().parents[4] / "images/runtime"
    done = subprocess.run(
        ["python3", "-c", code, tmp_path / "x.tar.gz", tmp_path / "b"],
        env={**os.environ, "PYTHONPATH": str(runtime)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ArchiveError too-big\n", done.stdout + done.stderr
    assert not (tmp_path / "b").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(mount)], capture_output=True, check=False).returncode
    ):
        pytest.skip("mounting a tmpfs needs root")
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def test_a_disk_that_is_too_small_is_seen_before_and_one_that_fills_up_leaves_nothing(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"f{i}": os.urandom(1 << 20) for i in range(12)}
    archive = archive_of(tmp_path / "x.tar.gz", [member(p, c) for p, c in files.items()], manifest_of(files))
    refused(archive, small_disk / "b", "no-room", "unpacks to")
    monkeypatch.setattr("pod.cache.archive._check_room", lambda *a: None)
    refused(archive, small_disk / "b", "no-room", "is full")
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_fills_up_while_packing_leaves_nothing(tmp_path: Path, small_disk: Path) -> None:
    source = folder_of(tmp_path / "a", {"x": os.urandom(12 << 20)})
    (small_disk / "x.tar.gz").write_text("old")
    with pytest.raises(ArchiveError) as caught:
        pack(source, small_disk / "x.tar.gz", SEAL, KEY, PARTS)
    assert caught.value.reason == "no-room" and [p.name for p in small_disk.iterdir()] == ["x.tar.gz"]
    assert (small_disk / "x.tar.gz").read_text() == "old"


def test_an_archive_that_is_not_there_or_a_root_that_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "none", tmp_path / "b", SEAL, KEY, PARTS)
    archive = archive_of(tmp_path / "x.tar.gz", [member("a", b"1")], manifest_of({"a": b"1"}))
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError):
        unpack(archive, tmp_path / "file", SEAL, KEY, PARTS)


def test_the_manifest_comes_first(tmp_path: Path) -> None:
    pack(folder_of(tmp_path / "a", FILES), tmp_path / "x.tar.gz", SEAL, KEY, PARTS)
    with tarfile.open(fileobj=io.BytesIO(body_of(tmp_path / "x.tar.gz"))) as tar:
        names = tar.getnames()
    assert names[0] == NAME and sorted(names[1:]) == sorted(FILES)
