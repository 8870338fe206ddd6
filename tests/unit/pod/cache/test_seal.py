"""Only a pod that has the endpoint's key makes an archive that a pod takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pod.cache.manifest import ArchiveError
from pod.cache.seal import MARK_BYTES, SHORTEST, Body, Seal

from tests.unit.pod.cache.archives import SEAL, SECRET, write_sealed


def read(archive: Path, seal: Seal = SEAL) -> bytes:
    with archive.open("rb") as stream:
        return Body(stream, seal).read()


@pytest.mark.parametrize("body", [b"", b"x", b"graph" * 700_000])
def test_what_was_sealed_comes_back_without_its_mark(tmp_path: Path, body: bytes) -> None:
    archive = write_sealed(tmp_path / "x", body)
    assert archive.stat().st_size == len(body) + MARK_BYTES and read(archive) == body


def test_a_secret_gives_one_seal_and_another_secret_another() -> None:
    assert Seal.of(SECRET) == SEAL != Seal.of(SECRET + "x")
    assert Seal.of(SECRET + "x").name != SEAL.name


def test_a_seal_shows_neither_secret_nor_key() -> None:
    assert SECRET not in repr(SEAL) and SEAL.key not in repr(SEAL) and SEAL.name not in SEAL.key


def test_a_secret_that_could_be_guessed_seals_nothing() -> None:
    Seal.of("x" * SHORTEST)
    with pytest.raises(ValueError, match="fewer than 16"):
        Seal.of("x" * (SHORTEST - 1))


@pytest.mark.parametrize("at", [0, 1, 40, -1, -MARK_BYTES, -MARK_BYTES - 1])
def test_one_changed_bit_is_enough(tmp_path: Path, at: int) -> None:
    archive = write_sealed(tmp_path / "x", b"graph" * 20)
    content = bytearray(archive.read_bytes())
    content[at] ^= 1
    archive.write_bytes(content)
    with pytest.raises(ArchiveError) as caught:
        read(archive)
    assert caught.value.reason == "unsealed"


@pytest.mark.parametrize("content", [b"", b"x", bytes(MARK_BYTES - 1), bytes(MARK_BYTES), bytes(100)])
def test_what_has_no_mark(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ArchiveError) as caught:
        read(tmp_path / "x")
    assert caught.value.reason == "unsealed"


def test_what_was_cut_or_lengthened_or_sealed_by_another(tmp_path: Path) -> None:
    whole = write_sealed(tmp_path / "x", b"graph" * 20).read_bytes()
    for content in (whole[:-1], whole[1:], whole + b"x", whole + whole, write_sealed(tmp_path / "y", b"graph" * 20, Seal.of("z" * 20)).read_bytes()):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(ArchiveError, match="without the endpoint's key"):
            read(tmp_path / "x")
