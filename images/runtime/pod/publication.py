"""The publication: the small signed file that running pods ask for, and that names the hash of everything else. Python 3.10+.

On the Hub it is `<profile>/publication.json`: {"publication": {...}, "key": public key, "signature": Ed25519}, keys and signature in
hexadecimal. The signature covers `DOMAIN` and the one canonical spelling of "publication", so neither the file's layout nor another
signed document can pass for it. Standard library only, except that `verify` and `sign` load `cryptography`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, Literal, cast

from pod.strict_json import ShapeError, decoded, encoded, parsed

SCHEMA_VERSION = 1
FILE_NAME = "publication.json"
# Signed in front of the publication: a signature made for anything else, even over the same bytes, does not fit.
DOMAIN = b"podwright publication\n"
# A publication names a few files and takes under 2 KB. What is larger is another kind of file, and not worth parsing.
MAX_BYTES = 64 * 1024
MAX_FILES = 64

Reason = Literal[
    "too-large", "not-json", "malformed", "unsigned", "no-public-key", "bad-public-key", "unknown-key", "bad-signature", "newer-schema",
    "wrong-profile", "old-file", "sequence-reused",
]  # fmt: skip

_HEX = re.compile(r"[0-9a-f]+\Z")
_PATH = re.compile(r"(?!.*(?:^|/)\.{1,2}(?:/|\Z))[A-Za-z0-9._+-]+(?:/[A-Za-z0-9._+-]+)*\Z")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?\Z")
# JSON numbers above this are not the same in every reader.
_LARGEST_SEQUENCE = 2**53


class PublicationError(Exception):
    """A publication that must not be followed. `reason` is for programs, the text for a person."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.reason: Reason = reason


@dataclasses.dataclass(frozen=True)
class Publication:
    """One publish. `sequence` grows with each; `published_at` is in Unix seconds and only shown; `when` says whether a change that
    stops the engine waits until it is idle. `files` maps paths from the repository's root to the sha256 of their bytes, and
    `runtime` is the sha256 of the payload among them that holds the pod's program, None where the image's own is meant."""

    schema_version: int
    profile: str
    sequence: int
    published_at: float
    when: Literal["now", "idle"]
    files: dict[str, str]
    runtime: str | None
    note: str

    @property
    def manifest_path(self) -> str:
        """Where the manifest is in the repository."""
        return f"{self.profile}/manifest.json"

    @property
    def runtime_path(self) -> str | None:
        """Where the runtime's payload is in the repository."""
        return None if self.runtime is None else payload_path(self.runtime)

    def to_json(self) -> dict[str, Any]:
        """Dictionaries, lists and scalars in the order of the fields."""
        return cast("dict[str, Any]", encoded(self))

    def canonical_bytes(self) -> bytes:
        """The one spelling that is hashed and signed: keys sorted, no spaces, UTF-8."""
        return _canonical(self.to_json())

    def sha256(self) -> str:
        """Hexadecimal sha256 of `canonical_bytes`: the publication's identity in status and journal."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Taken:
    """The last publication that a pod took over, as it keeps it on disk to tell an old file from a new one."""

    sequence: int
    sha256: str


def publication_path(profile: str) -> str:
    """Where a profile's publication is in the repository."""
    return f"{profile}/{FILE_NAME}"


def payload_path(sha256: str) -> str:
    """Where an archive is in the repository: its name is its content."""
    return f"payload/{sha256}.tar.bz2"


def public_keys(text: str) -> tuple[bytes, ...]:
    """The keys in a variable: 64 hexadecimal digits each, separated by commas or white space. Several while a key is replaced.

    Raises PublicationError `bad-public-key`, which names the place and never the text: somebody may have put a private key there.
    """
    words = text.replace(",", " ").split()
    for place, word in enumerate(words, 1):
        if len(word) != 64 or not _HEX.match(word.lower()):
            raise PublicationError("bad-public-key", f"key {place} of {len(words)} is not 64 hexadecimal digits, as `podwright keygen` prints them")
    return tuple(bytes.fromhex(word) for word in words)


def verify(document: bytes, keys: Sequence[bytes], *, allow_unsigned: bool = False) -> Publication:
    """The publication in a file's bytes, once it is signed with one of `keys` and of a schema that this runtime reads.

    `allow_unsigned` takes a file without a signature, and, where there are no keys, one with any. A signature that can be
    checked is checked either way. Raises PublicationError with the first thing that is wrong, in the order of `Reason`.
    """
    envelope = _envelope(document)
    content, key, signature = envelope["publication"], envelope["key"], envelope["signature"]
    is_signed = key is not None or signature is not None
    if not is_signed and not allow_unsigned:
        raise PublicationError("unsigned", "carries no signature; sign it with `podwright keygen`'s key, or allow unsigned publications in the profile")
    if is_signed and (keys or not allow_unsigned):
        _check_signature(_signed_bytes(content), key, signature, keys)
    return _publication(content)


def check_order(publication: Publication, path: str, last: Taken | None) -> bool:
    """Whether a verified publication is new to a pod that follows `path`; False when it is the one in force.

    Raises PublicationError for another profile's file (`wrong-profile`), for one published before the last one (`old-file`), and
    for another one under the same number (`sequence-reused`). All three can be signed: somebody put back what was once right.
    """
    if path != publication_path(publication.profile):
        raise PublicationError("wrong-profile", f"was published for {publication.profile}, and this pod follows {path}")
    if last is None or publication.sequence > last.sequence:
        return True
    if publication.sequence < last.sequence:
        raise PublicationError("old-file", f"has number {publication.sequence}, and number {last.sequence} is in force: the Hub answers with an "
                               "old file, or somebody put one back")  # fmt: skip
    if publication.sha256() != last.sha256:
        raise PublicationError("sequence-reused", f"differs from what is in force under the same number {last.sequence}; publish again")
    return False


def sign(publication: Publication, private_key: bytes) -> bytes:
    """The file to put on the Hub, signed. `private_key` is the 32 bytes of an Ed25519 key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(private_key)
    return _document(publication, key.public_key().public_bytes_raw().hex(), key.sign(DOMAIN + publication.canonical_bytes()).hex())


def unsigned(publication: Publication) -> bytes:
    """The file without a signature, for pods whose profile allows that."""
    return _document(publication, None, None)


def _document(publication: Publication, key: str | None, signature: str | None) -> bytes:
    _publication(publication.to_json())  # What no pod could read must not leave.
    return (json.dumps({"publication": publication.to_json(), "key": key, "signature": signature}, indent=2, ensure_ascii=False) + "\n").encode()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")


def _signed_bytes(content: dict[str, Any]) -> bytes:
    try:
        return DOMAIN + _canonical(content)
    except (RecursionError, ValueError):
        raise PublicationError("malformed", "publication: is nested too deeply to be spelled") from None


def _envelope(document: bytes) -> dict[str, Any]:
    if len(document) > MAX_BYTES:
        raise PublicationError("too-large", f"has {len(document):,} bytes, and a publication has at most {MAX_BYTES:,}")
    try:
        data = parsed(document)
    except ShapeError as error:
        is_json = error.problem.startswith(("stands twice", "holds "))
        raise PublicationError("malformed" if is_json else "not-json", str(error).removeprefix(": ")) from None
    if not isinstance(data, dict) or not isinstance(data.get("publication"), dict):
        raise PublicationError("malformed", 'is no object with "publication"')
    if data.keys() != {"publication", "key", "signature"}:
        _refuse_newer(data["publication"])
        raise PublicationError("malformed", f'must have "publication", "key" and "signature", and has {", ".join(sorted(data))[:200]}')
    return data


def _check_signature(signed: bytes, key: object, signature: object, keys: Sequence[bytes]) -> None:
    if not keys:
        raise PublicationError("no-public-key", "cannot be checked: this pod was given no public key")
    if not _is_hex(key, 64) or not _is_hex(signature, 128):
        raise PublicationError("malformed", "key and signature must be 64 and 128 hexadecimal digits")
    public = bytes.fromhex(cast("str", key))
    if public not in keys:
        raise PublicationError("unknown-key", f"is signed with key {public.hex()[:16]}..., which is not among the {len(keys)} that this pod trusts")
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(cast("str", signature)), signed)
    except (InvalidSignature, ValueError):
        raise PublicationError("bad-signature", "does not match its signature: it was changed after it was signed, or cut") from None


def _is_hex(value: object, digits: int) -> bool:
    return isinstance(value, str) and len(value) == digits and _HEX.match(value) is not None


def _refuse_newer(content: dict[str, Any]) -> None:
    version = content.get("schema_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        raise PublicationError("newer-schema", f"has schema {version}, and this runtime reads up to {SCHEMA_VERSION}; start a new pod")


def _publication(content: dict[str, Any]) -> Publication:
    _refuse_newer(content)
    try:
        found = decoded(Publication, content)
    except ShapeError as error:
        raise PublicationError("malformed", f"publication.{error}") from None
    problem = _problem(found)
    if problem:
        raise PublicationError("malformed", f"publication.{problem}")
    return found


def _problem(found: Publication) -> str | None:
    if found.schema_version < 1:
        return f"schema_version: is {found.schema_version}; the first one is 1"
    if not _NAME.match(found.profile):
        return "profile: is no name of a profile"
    if not 1 <= found.sequence <= _LARGEST_SEQUENCE:
        return "sequence: must be at least 1"
    if found.published_at < 0:
        return "published_at: lies before 1970"
    if not 1 <= len(found.files) <= MAX_FILES:
        return f"files: must be 1 to {MAX_FILES}"
    for path, digest in found.files.items():
        if not _PATH.match(path) or len(path) > 200:
            return "files: holds a path that is not relative, plain and below the repository's root"
        if not _is_hex(digest, 64):
            return f"files.{path}: must be a sha256"
    if found.manifest_path not in found.files:
        return f"files: lacks {found.manifest_path}"
    if found.runtime is not None and found.files.get(payload_path(found.runtime)) != found.runtime:
        return "runtime: names a payload that is not among the files"
    return None
