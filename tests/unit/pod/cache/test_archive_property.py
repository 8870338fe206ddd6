"""Archives with any content come back as they were; archives with any damage are refused or come back as they were."""

from __future__ import annotations

import gzip
import random
import shutil
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pod.cache.archive import pack, unpack
from pod.cache.manifest import ArchiveError, path_problem

from tests.unit.pod.cache.archives import KEY, PARTS, SEAL, archive_of, body_of, content_of, folder_of, manifest_of, member, write_sealed

_NAMES = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="/\\"), min_size=1, max_size=20).filter(
    lambda n: path_problem(n) is None and not n.endswith((".lock", ".tmp"))
)
_KINDS = [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE]
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join).filter(lambda p: path_problem(p) is None)
_FILES = st.dictionaries(_PATHS, st.binary(max_size=2000), min_size=1, max_size=8).filter(
    lambda files: not any(a != b and b.startswith(f"{a}/") for a in files for b in files)
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(files=_FILES)
def test_any_files_come_back(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    work = tmp_path_factory.mktemp("cache")
    pack(folder_of(work / "a", files), work / "x.tar.gz", SEAL, KEY, PARTS)
    unpack(work / "x.tar.gz", work / "b", SEAL, KEY, PARTS, reserve=0)
    assert content_of(work / "b") == files
    shutil.rmtree(work)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, bytes]]:
    work, rng = tmp_path_factory.mktemp("good"), random.Random(7)
    files = {f"torch_compile_cache/{i:02}/{'n' * (i * 40 % 200)}{i}.so": rng.randbytes(i * 137) for i in range(1, 8)}
    pack(folder_of(work / "a", files), work / "x.tar.gz", SEAL, KEY, PARTS)
    return body_of(work / "x.tar.gz"), files


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_refused(tmp_path_factory: pytest.TempPathFactory, good: tuple[bytes, dict[str, bytes]], data: st.DataObject) -> None:
    """Damage of the archive's bytes, or of the tar inside with a gzip that is right again."""
    archive, files = good
    inside = data.draw(st.booleans())
    content = bytearray(gzip.decompress(archive) if inside else archive)
    how = data.draw(st.sampled_from(["flip", "cut", "insert", "zero", "copy"]))
    at, length = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(1, 600))
    if how == "flip":
        content[at] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        del content[at:]
    elif how == "insert":
        content[at:at] = data.draw(st.binary(min_size=1, max_size=600))
    elif how == "zero":
        content[at : at + length] = bytes(len(content[at : at + length]))
    else:
        content[at : at + length] = content[:length]
    work = tmp_path_factory.mktemp("damaged")
    write_sealed(work / "x.tar.gz", gzip.compress(bytes(content), 1) if inside else bytes(content))
    try:
        unpack(work / "x.tar.gz", work / "b", SEAL, KEY, PARTS, reserve=0)
        assert content_of(work / "b") == files, "damage that does not matter"
    except ArchiveError:
        assert not (work / "b").exists()
    assert sorted(p.name for p in work.iterdir()) in (["b", "x.tar.gz"], ["x.tar.gz"])
    shutil.rmtree(work)


@settings(max_examples=150, deadline=None)
@given(
    listed=st.dictionaries(st.text(max_size=12), st.binary(max_size=8), max_size=4),
    members=st.lists(st.tuples(st.text(max_size=12), st.binary(max_size=8), st.sampled_from(_KINDS),
                               st.sampled_from(["", "..", "/etc/passwd", "../../x"])), max_size=4),
)  # fmt: skip
def test_no_archive_writes_anything_but_what_it_lists(
    tmp_path_factory: pytest.TempPathFactory, listed: dict[str, bytes], members: list[tuple[str, bytes, bytes, str]]
) -> None:
    work = tmp_path_factory.mktemp("hand")
    try:
        made = [member(name, content if kind == tarfile.REGTYPE else b"", kind, link) for name, content, kind, link in members]
        archive = archive_of(work / "x.tar.gz", made, manifest_of(listed))
    except (ValueError, UnicodeEncodeError):
        return
    try:
        unpack(archive, work / "inner" / "b", SEAL, KEY, PARTS, reserve=0)
        assert content_of(work / "inner" / "b") == listed
    except ArchiveError:
        assert not (work / "inner" / "b").exists()
    assert {p.name for p in work.iterdir()} <= {"x.tar.gz", "inner"} and {p.name for p in (work / "inner").glob("*")} <= {"b"}
    shutil.rmtree(work)
