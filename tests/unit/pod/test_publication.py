from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from pod.publication import (
    DOMAIN,
    MAX_BYTES,
    MAX_FILES,
    Publication,
    PublicationError,
    Taken,
    check_order,
    payload_path,
    public_keys,
    publication_path,
    sign,
    unsigned,
    verify,
)

PRIVATE, OTHER = b"\x01" * 32, b"\x02" * 32
KEY, OTHER_KEY = (Ed25519PrivateKey.from_private_bytes(k).public_key().public_bytes_raw() for k in (PRIVATE, OTHER))
SHA = hashlib.sha256(b"x").hexdigest()
EXAMPLE = Publication(1, "tiny-cpu", 7, 1_790_000_000.5, "idle", {"tiny-cpu/manifest.json": SHA, payload_path(SHA): SHA}, SHA, "ünïcode note")


def refusal(document: bytes, keys: tuple[bytes, ...] = (KEY,), **options: Any) -> PublicationError:
    with pytest.raises(PublicationError) as caught:
        verify(document, keys, **options)
    return caught.value


def changed(document: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
    data = json.loads(document)
    change(data)
    return json.dumps(data).encode()


def signed_raw(content: Any, key: bytes = PRIVATE) -> bytes:
    """A correctly signed document whose publication may be anything."""
    private = Ed25519PrivateKey.from_private_bytes(key)
    signature = private.sign(DOMAIN + json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
    return json.dumps({"publication": content, "key": private.public_key().public_bytes_raw().hex(), "signature": signature.hex()}).encode()


def with_fields(**fields: Any) -> bytes:
    return signed_raw(EXAMPLE.to_json() | fields)


def test_what_was_signed_is_read_back() -> None:
    assert verify(sign(EXAMPLE, PRIVATE), [KEY]) == EXAMPLE
    assert verify(signed_raw(EXAMPLE.to_json()), [OTHER_KEY, KEY]) == EXAMPLE


def test_layout_and_order_of_keys_do_not_matter() -> None:
    data = json.loads(sign(EXAMPLE, PRIVATE))
    data["publication"] = dict(reversed(data["publication"].items()))
    assert verify(json.dumps(data, indent=7).encode(), [KEY]) == EXAMPLE


@pytest.mark.parametrize(("document", "reason"), [
    (b"", "not-json"),
    (b"<!doctype html><title>Sign in</title>", "not-json"),
    (sign(EXAMPLE, PRIVATE)[:100], "not-json"),
    (b"\xff\xfe{}", "not-json"),
    (b" " * (MAX_BYTES + 1), "too-large"),
    (b"[" * 60_000, "not-json"),
    (b"[]", "malformed"),
    (b'{"publication": 3, "key": null, "signature": null}', "malformed"),
    (b'{"publication": {}, "publication": {}, "key": null, "signature": null}', "malformed"),
    (b'{"publication": {"sequence": NaN}, "key": null, "signature": null}', "malformed"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: d.update(extra=1)), "malformed"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: d.pop("signature")), "malformed"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: d.update(signature="zz")), "malformed"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: d.update(key=None)), "malformed"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: d.update(signature=None)), "malformed"),
    (unsigned(EXAMPLE), "unsigned"),
    (sign(EXAMPLE, OTHER), "unknown-key"),
    (changed(sign(EXAMPLE, OTHER), lambda d: d.update(key=KEY.hex())), "bad-signature"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: d["publication"].update(sequence=8)), "bad-signature"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: d["publication"].update(extra=8)), "bad-signature"),
    (with_fields(schema_version=2, novelty={"a": []}), "newer-schema"),
    (changed(sign(EXAMPLE, PRIVATE), lambda d: (d["publication"].update(schema_version=2), d.update(second_signature="x"))), "newer-schema"),
    (with_fields(schema_version=0), "malformed"),
    (with_fields(schema_version=True), "malformed"),
    (with_fields(surprise=1), "malformed"),
    (with_fields(sequence=0), "malformed"),
    (with_fields(sequence=2**60), "malformed"),
    (with_fields(sequence="7"), "malformed"),
    (with_fields(when="soon"), "malformed"),
    (with_fields(published_at=-1), "malformed"),
    (with_fields(profile="../other"), "malformed"),
    (with_fields(files={}), "malformed"),
    (with_fields(files={"tiny-cpu/manifest.json": SHA, **{f"f{i}": SHA for i in range(MAX_FILES)}}), "malformed"),
    (with_fields(files={"tiny-cpu/manifest.json": SHA.upper()}, runtime=None), "malformed"),
    (with_fields(files={"other/manifest.json": SHA}, runtime=None), "malformed"),
    (with_fields(files={"tiny-cpu/manifest.json": SHA}), "malformed"),
    (with_fields(files={"tiny-cpu/manifest.json": SHA, payload_path(SHA): "0" * 64}), "malformed"),
])  # fmt: skip
def test_every_other_document_is_refused_with_its_reason(document: bytes, reason: str) -> None:
    assert refusal(document).reason == reason


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "a\\b", "", ".", "a/", "a\n", "x" * 201, "a b", "é"])
def test_a_path_that_could_leave_the_repository_is_refused(path: str) -> None:
    error = refusal(with_fields(files={"tiny-cpu/manifest.json": SHA, path: SHA}, runtime=None))
    assert error.reason == "malformed"


def test_a_signature_of_another_document_does_not_fit() -> None:
    signature = Ed25519PrivateKey.from_private_bytes(PRIVATE).sign(EXAMPLE.canonical_bytes()).hex()
    document = changed(sign(EXAMPLE, PRIVATE), lambda d: d.update(signature=signature))
    assert refusal(document).reason == "bad-signature"


def test_without_a_public_key_nothing_signed_can_be_checked() -> None:
    assert refusal(sign(EXAMPLE, PRIVATE), ()).reason == "no-public-key"


def test_unsigned_publications_need_the_explicit_setting() -> None:
    assert verify(unsigned(EXAMPLE), [], allow_unsigned=True) == EXAMPLE
    assert verify(unsigned(EXAMPLE), [KEY], allow_unsigned=True) == EXAMPLE
    assert verify(sign(EXAMPLE, OTHER), [], allow_unsigned=True) == EXAMPLE
    assert refusal(unsigned(EXAMPLE), allow_unsigned=False).reason == "unsigned"
    assert refusal(sign(EXAMPLE, OTHER), allow_unsigned=True).reason == "unknown-key"
    assert refusal(changed(sign(EXAMPLE, PRIVATE), lambda d: d["publication"].update(note="!")), allow_unsigned=True).reason == "bad-signature"


def test_what_no_pod_could_read_is_not_signed() -> None:
    for broken in (dataclasses.replace(EXAMPLE, sequence=0), dataclasses.replace(EXAMPLE, files={"a": SHA})):
        with pytest.raises(PublicationError, match="publication"):
            sign(broken, PRIVATE)


def test_the_order_of_publications() -> None:
    path, last = publication_path("tiny-cpu"), Taken(7, EXAMPLE.sha256())
    assert check_order(EXAMPLE, path, None)
    assert check_order(EXAMPLE, path, Taken(6, "")) is True
    assert check_order(EXAMPLE, path, last) is False
    for publication, where, reason in ((EXAMPLE, publication_path("other"), "wrong-profile"),
                                       (dataclasses.replace(EXAMPLE, sequence=6), path, "old-file"),
                                       (dataclasses.replace(EXAMPLE, note="changed"), path, "sequence-reused")):  # fmt: skip
        with pytest.raises(PublicationError) as caught:
            check_order(publication, where, last)
        assert caught.value.reason == reason


def test_keys_of_the_environment() -> None:
    assert public_keys("") == ()
    assert public_keys(f" {KEY.hex()}, {OTHER_KEY.hex().upper()}\n") == (KEY, OTHER_KEY)
    for text in ("abc", KEY.hex()[:-1], f"{KEY.hex()},{'g' * 64}", "{{ RUNPOD_SECRET_key }}"):
        with pytest.raises(PublicationError) as caught:
            public_keys(text)
        assert caught.value.reason == "bad-public-key"
        assert KEY.hex()[:16] not in str(caught.value)


def test_reading_needs_the_standard_library_alone() -> None:
    code = "import sys; import pod.publication; print(sorted(m for m in ('cryptography', 'ssl', 'compiler', 'asyncio') if m in sys.modules))"
    root = Path(__file__).parents[3] / "images" / "runtime"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*EXAMPLE.to_json(), "x"]), inner, max_size=9), max_leaves=20,
)  # fmt: skip


def only_refusals(document: bytes, **options: Any) -> None:
    try:
        verify(document, [KEY], **options)
    except PublicationError as error:
        assert error.reason and str(error)


@given(st.binary(max_size=400), st.booleans())
def test_arbitrary_bytes_are_refused_and_crash_nothing(document: bytes, allow: bool) -> None:
    only_refusals(document, allow_unsigned=allow)


@given(JSON, JSON, JSON)
def test_arbitrary_json_is_refused_and_crashes_nothing(content: Any, key: Any, signature: Any) -> None:
    only_refusals(json.dumps({"publication": content, "key": key, "signature": signature}).encode(), allow_unsigned=True)


@given(st.dictionaries(st.sampled_from([*EXAMPLE.to_json(), "x"]), JSON, max_size=3))
def test_arbitrary_fields_in_a_signed_publication_crash_nothing(fields: dict[str, Any]) -> None:
    only_refusals(with_fields(**fields))


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_one_flipped_bit_is_noticed(place: int, bit: int) -> None:
    document = bytearray(sign(EXAMPLE, PRIVATE))
    document[place % len(document)] ^= 1 << bit
    try:
        found = verify(bytes(document), [KEY])
    except PublicationError:
        return
    assert found == EXAMPLE  # Only white space between JSON's tokens is not signed.


@given(st.text(max_size=200))
def test_arbitrary_text_in_the_keys_variable_crashes_nothing(text: str) -> None:
    try:
        keys = public_keys(text)
    except PublicationError:
        return
    assert all(len(key) == 32 for key in keys)
