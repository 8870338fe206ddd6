from __future__ import annotations

import datetime
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.publication import Publication, public_keys, verify

from compiler.deploy.signing import (
    SigningKey,
    SigningKeyError,
    SigningKeyExists,
    SigningKeyExpired,
    _key_in,
    key_path,
    load_key,
    new_key,
    sign_publication,
    write_key,
)
from tests.cli.command import podwright

TODAY = datetime.date(2026, 11, 30)
SHA = hashlib.sha256(b"").hexdigest()
PUBLICATION = Publication(1, "tiny-cpu", 1, 0.0, "now", {"tiny-cpu/manifest.json": SHA}, None, "")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "signing.key"


def written(path: Path, expires: datetime.date | None = None) -> SigningKey:
    key = new_key(TODAY, expires)
    write_key(key, path)
    return key


def test_what_is_signed_with_a_key_from_a_file_is_trusted_by_a_pod_with_its_public_half(path: Path) -> None:
    key = written(path, datetime.date(2027, 1, 1))
    assert load_key(path) == key
    assert verify(sign_publication(PUBLICATION, load_key(path), TODAY), public_keys(key.public_text)) == PUBLICATION


def test_only_the_owner_can_read_the_file_and_nothing_else_is_left(path: Path) -> None:
    umask = os.umask(0)
    try:
        written(path)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["signing.key"]


@pytest.mark.parametrize("there", ["a key", "an empty file", "a dangling link"])
def test_nothing_is_overwritten(path: Path, there: str) -> None:
    path.parent.mkdir()
    if there == "a dangling link":
        path.symlink_to(path.with_name("nowhere"))
    else:
        path.write_text("" if there == "an empty file" else "something")
    with pytest.raises(SigningKeyExists, match="exists already"):
        written(path)
    assert path.is_symlink() or path.read_text() in ("", "something")
    assert [p.name for p in path.parent.iterdir()] == ["signing.key"]


def test_the_private_half_is_in_no_message_and_no_repr(path: Path) -> None:
    key = written(path)
    assert key.private.hex() not in repr(key) and str(key.private) not in repr(key)
    path.chmod(0o600)
    text = path.read_text()
    path.write_text(text.replace('"public_key"', '"other"'))
    with pytest.raises(SigningKeyError) as caught:
        load_key(path)
    assert key.private.hex() not in caught.value.formatted() + json.dumps(caught.value.to_json())
    assert caught.value.__cause__ is None


def test_a_key_that_others_can_read_is_refused(path: Path) -> None:
    written(path)
    path.chmod(0o640)
    with pytest.raises(SigningKeyError, match=r"can be read by others \(mode 0640\)"):
        load_key(path)


def test_an_expired_key_signs_nothing(path: Path) -> None:
    key = written(path, TODAY)
    assert sign_publication(PUBLICATION, key, TODAY)
    with pytest.raises(SigningKeyExpired, match=rf"{key.public_text[:16]}.* expired on 2026-11-30") as caught:
        sign_publication(PUBLICATION, key, TODAY + datetime.timedelta(days=1))
    assert "2026-12-01" in caught.value.why and key.private.hex() not in caught.value.formatted()
    with pytest.raises(SigningKeyExpired):
        new_key(TODAY, TODAY - datetime.timedelta(days=1))


def test_no_key_says_how_to_make_one(path: Path) -> None:
    with pytest.raises(SigningKeyError) as caught:
        load_key(path)
    assert "podwright keygen" in caught.value.fix
    path.mkdir(parents=True)
    with pytest.raises(SigningKeyError, match="holds no usable signing key"):
        load_key(path)


@pytest.mark.parametrize("change", [{"private_key": "0" * 64}, {"public_key": "x"}, {"private_key": 7}, {"created": "today"}, {"expires": 5}, {"more": 1}])
def test_a_damaged_key_is_refused(path: Path, change: dict[str, object]) -> None:
    written(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SigningKeyError, match="holds no usable signing key"):
        load_key(path)


@given(st.binary(max_size=300) | st.recursive(st.none() | st.text() | st.integers(), lambda i: st.dictionaries(
    st.sampled_from(["private_key", "public_key", "created", "expires"]), i, min_size=3), max_leaves=8).map(lambda v: json.dumps(v).encode()))  # fmt: skip
def test_arbitrary_bytes_are_no_key_and_crash_nothing(content: bytes) -> None:
    with pytest.raises(SigningKeyError):
        _key_in(Path("k"), content)


def test_where_the_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert key_path({}) == Path("/home/me/.config/podwright/signing.key")
    assert key_path({"PODWRIGHT_SIGNING_KEY": "~/k"}) == Path("/home/me/k")


def test_keygen_makes_shows_and_never_replaces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODWRIGHT_SIGNING_KEY", str(path))
    made = podwright("keygen", "--expires", "2099-01-01", "--json")
    facts = json.loads(made.out)
    key = load_key(path)
    assert made.code == 0 and facts["public_key"] == key.public_text and facts["expires"] == "2099-01-01" and facts["variable"] == "PODWRIGHT_PUBLIC_KEY"
    again, shown = podwright("keygen"), podwright("keygen", "--show")
    assert again.code == 4 and "exists already" in again.err
    assert shown.code == 0 and f"PODWRIGHT_PUBLIC_KEY={key.public_text}" in shown.out and "until 2099-01-01" in shown.out
    assert key.private.hex() not in made.out + made.err + again.out + again.err + shown.out + shown.err
    other = podwright("keygen", "--out", str(path.with_name("second.key")))
    assert other.code == 0 and "without an end" in other.out and load_key(path.with_name("second.key")) != key


def test_keygen_refuses_what_makes_no_sense(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODWRIGHT_SIGNING_KEY", str(path))
    assert podwright("keygen", "--expires", "2001-01-01").code == 4
    assert podwright("keygen", "--expires", "soon").code == 2
    assert podwright("keygen", "--show", "--expires", "2099-01-01").code == 2
    missing = podwright("keygen", "--show", "--json")
    assert missing.code == 4 and json.loads(missing.out)["failure"] == "SigningKeyError"
    assert not path.exists()


def test_an_unwritable_folder_is_the_machines_no(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = podwright("keygen", "--out", str(tmp_path / "file" / "key"))
    assert ended.code == 4 and str(tmp_path / "file") in ended.err
