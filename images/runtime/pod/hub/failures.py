"""What an exception of huggingface_hub means for a pod: a kind, a sentence, a cure, and whether waiting may help.

Errors are told apart by the names of their classes, so that this works with every release of the library and without
loading it. No message holds a token or the signed query of an address.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import re
from collections.abc import Iterator
from typing import Any, Literal

Kind = Literal["gated", "bad-token", "not-found", "no-room", "offline", "too-big", "error"]

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_WRITE = {errno.EACCES, errno.EPERM, errno.EROFS}
# hf_xet is written in Rust and reports the system's errors as text.
_FULL_TEXT = re.compile(r"No space left on device|os error (28|122)\b|Disk quota exceeded")
_NETWORK = {"ConnectError", "TimeoutException", "TransportError", "ConnectionError", "Timeout", "NetworkError", "ProtocolError",
            "TimeoutError", "gaierror", "SSLError"}  # fmt: skip
_SECRETS = re.compile(r"hf_[A-Za-z0-9]{8,}|(?<=\?)[^\s'\"]+")


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a transfer failed. `may_pass`: the same call may work later without anybody's doing."""

    kind: Kind
    detail: str
    fix: str
    may_pass: bool = False

    def as_json(self) -> dict[str, Any]:
        """The fields, as a result line carries them."""
        return dataclasses.asdict(self)


def failure_of(error: BaseException, subject: str, is_write: bool = False) -> Failure:
    """What `error`, raised while dealing with `subject`, means. `is_write`: something was to be published there."""
    chain = list(_chain(error))
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    if any(getattr(link, "errno", None) in _FULL or _FULL_TEXT.search(str(link)) for link in chain):
        return Failure(
            "no-room", f"the disk is full: {subject} does not fit", "start a new pod with a larger disk, or mount a larger volume"
        )
    answers = [getattr(link, "response", None) for link in chain]
    status = next((int(answer.status_code) for answer in answers if answer is not None), None)
    if "GatedRepoError" in names or (status == 403 and not is_write):
        return _gated(subject)
    return _of_status(names, status, subject, is_write) or _of_the_way(chain, names, subject)


def _gated(subject: str) -> Failure:
    return Failure(
        "gated",
        f"{subject} is closed to this pod's account",
        f"accept the licence on the page of {subject} with the account whose token is in the secret HF_TOKEN, and set that secret",
    )


def _of_status(names: set[str], status: int | None, subject: str, is_write: bool) -> Failure | None:
    """What the Hub answered."""
    token = "the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "no token (HF_TOKEN is empty)"
    if "RevisionNotFoundError" in names:
        return Failure("not-found", f"the Hub has no such commit of {subject}", "lock the profile again and publish it")
    if "RemoteEntryNotFoundError" in names or ("EntryNotFoundError" in names and status == 404):
        return Failure("not-found", f"the Hub has no {subject}", "look at the file's name in the spec")
    if names & {"RepositoryNotFoundError", "HFValidationError"} or status == 404:
        return Failure(
            "not-found",
            f"the Hub shows no {subject} to {token}",
            "look at the name; a private repository needs the secret HF_TOKEN of an account that may read it",
        )
    if status == 401 or (status == 403 and is_write):
        what = f"the Hub refuses {token}" if status == 401 else f"{token} may not write to {subject}"
        return Failure("bad-token", what, "put a valid token into the secret HF_TOKEN and start a new pod")
    if status is not None and (status == 429 or status >= 500 or status == 408):
        return Failure("error", f"the Hub answers {status} for {subject}", "nothing: it is asked again", may_pass=True)
    if status is not None:
        return Failure("error", f"the Hub answers {status} for {subject}", "look whether HF_ENDPOINT names a real Hub")
    return None


def _of_the_way(chain: list[BaseException], names: set[str], subject: str) -> Failure:
    """What happened between this pod and the Hub, or on this pod."""
    if "OfflineModeIsEnabled" in names:
        return Failure("offline", f"{subject} is not on this disk, and HF_HUB_OFFLINE forbids to ask the Hub", "unset HF_HUB_OFFLINE")
    if any(getattr(link, "errno", None) in _NO_WRITE for link in chain):
        return Failure("error", f"{subject} cannot be written: {shown(chain[0])}", "look at the mount and the rights of the cache's folder")
    if names & _NETWORK:
        return Failure(
            "offline",
            f"the Hub cannot be reached for {subject}: {shown(chain[-1])}",
            "look at the pod's network; it is tried again",
            may_pass=True,
        )
    passing = any("Consistency check failed" in str(link) or "Xet" in type(link).__name__ or type(link) is RuntimeError for link in chain)
    return Failure("error", f"{subject}: {shown(chain[0])}", "read the lines above in the journal", may_pass=passing)


def shown(error: BaseException) -> str:
    """One line of an error's text, without secrets."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    token = os.environ.get("HF_TOKEN")
    text = _SECRETS.sub("...", text.replace(token, "...") if token else text)
    return f"{type(error).__name__}: {text[:240]}" if text else type(error).__name__


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
