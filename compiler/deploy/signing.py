"""The key that signs publications: an Ed25519 pair in a file that only its owner can read.

The file is JSON with `private_key`, `public_key` (64 hexadecimal digits each), `created` and `expires` (a date or null). It lies where
PODWRIGHT_SIGNING_KEY says, else in ~/.config/podwright/signing.key. The private half is never printed and in no message.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from pod.publication import Publication, sign

from compiler.deploy.failures import DeployError

VARIABLE = "PODWRIGHT_SIGNING_KEY"
_HEX = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"private_key", "public_key", "created", "expires"}
# A key file has 250 bytes; the variable may name anything.
_MAX_BYTES = 4096


class SigningKeyError(DeployError):
    """There is no key to sign with, or it must not be used."""


class SigningKeyExpired(SigningKeyError):
    """The key's last day has passed."""


class SigningKeyExists(SigningKeyError):
    """A new key would take the place of another one."""


@dataclasses.dataclass(frozen=True, slots=True)
class SigningKey:
    """A key pair, 32 bytes each. `expires` is the last day on which it signs; None: it has no end."""

    private: bytes = dataclasses.field(repr=False)
    public: bytes
    created: datetime.date
    expires: datetime.date | None

    @property
    def public_text(self) -> str:
        """The public key as a pod's variable holds it."""
        return self.public.hex()


def key_path(environ: Mapping[str, str]) -> Path:
    """Where the key is, by this environment."""
    named = environ.get(VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".config" / "podwright" / "signing.key"


def new_key(today: datetime.date, expires: datetime.date | None = None) -> SigningKey:
    """A fresh pair. Raises SigningKeyExpired for an end that lies behind us."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if expires is not None and expires < today:
        raise SigningKeyExpired(f"a key until {expires} could sign nothing", f"Today is {today}.", "Give a later day to --expires, or leave it out.")
    key = Ed25519PrivateKey.generate()
    return SigningKey(key.private_bytes_raw(), key.public_key().public_bytes_raw(), today, expires)


def write_key(key: SigningKey, path: Path) -> None:
    """Write a key, whole or not at all, readable by its owner alone. Raises SigningKeyExists where anything lies there, OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = json.dumps({"private_key": key.private.hex(), "public_key": key.public.hex(), "created": key.created.isoformat(),
                       "expires": key.expires.isoformat() if key.expires else None}, indent=2) + "\n"  # fmt: skip
    staging = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(staging, path)  # Unlike a rename, it fails where a file is.
    except FileExistsError:
        raise SigningKeyExists(
            f"{path} exists already",
            "Pods that trust only that key would follow nothing any more, and it cannot be made again.",
            "Keep it, or write the new key elsewhere with --out and name it in PODWRIGHT_SIGNING_KEY; docs/publishing.md tells how keys are replaced.",
        ) from None
    finally:
        with contextlib.suppress(OSError):
            staging.unlink()


def load_key(path: Path) -> SigningKey:
    """The key in a file. Raises SigningKeyError where there is none, or where others could have read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise SigningKeyError(
            f"there is no signing key in {path}",
            "Pods follow only what is signed with a key that they were given.",
            "Make one with `podwright keygen`, or name yours in PODWRIGHT_SIGNING_KEY.",
        ) from None
    except OSError as error:
        raise _unreadable(path, error.strerror or type(error).__name__) from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise SigningKeyError(
            f"{path} can be read by others (mode {stat.S_IMODE(mode):04o})",
            "Whoever has this key decides what runs in the pods.",
            f"chmod 600 {path}; if somebody may have read it, make a new key.",
        )
    return _key_in(path, content)


def sign_publication(publication: Publication, key: SigningKey, today: datetime.date) -> bytes:
    """The signed file for the Hub. Raises SigningKeyExpired after the key's last day."""
    if key.expires is not None and today > key.expires:
        raise SigningKeyExpired(
            f"the signing key {key.public_text[:16]}... expired on {key.expires}",
            f"Today is {today}. Nothing was signed or published.",
            "Set this machine's clock if that is not the date; else make a new key with `podwright keygen --out FILE` and give pods its public key first.",
        )
    return sign(publication, key.private)


def _key_in(path: Path, content: bytes) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        data = json.loads(content)
        if not isinstance(data, dict) or data.keys() != _FIELDS:
            raise ValueError
        private, public = (bytes.fromhex(data[name]) for name in ("private_key", "public_key") if _HEX.fullmatch(data[name]))
        created = datetime.date.fromisoformat(data["created"])
        expires = None if data["expires"] is None else datetime.date.fromisoformat(data["expires"])
    except (ValueError, TypeError, RecursionError):
        raise _unreadable(path, "it is not a file that `podwright keygen` wrote") from None
    if Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw() != public:
        raise _unreadable(path, "its two halves do not belong together")
    return SigningKey(private, public, created, expires)


def _unreadable(path: Path, reason: str) -> SigningKeyError:
    return SigningKeyError(f"{path} holds no usable signing key: {reason}", "Nothing can be signed without it.", "Restore the file from your copy, or name another in PODWRIGHT_SIGNING_KEY.")
