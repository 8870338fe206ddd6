"""One look at what is published, from the question to a manifest that can be trusted: what the supervisor runs in a thread.

Order of the checks: docs/publishing.md. Nothing is written here. The caller keeps `Taken` on disk once it has taken a publication over,
and says so with `took`; until then the same publication is handed out again, so that a supervisor which dies in between loses nothing.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping

from pod.contract import Follow, Manifest, ManifestError, NewerSchemaError
from pod.hub.client import Answer, HubError, ask
from pod.hub.follow import ASK_TIMEOUT_S, Follower, Published, Unchanged, base_url, fetch_files
from pod.publication import MAX_BYTES, Publication, PublicationError, Taken, check_order, public_keys, verify


@dataclasses.dataclass(frozen=True)
class Quiet:
    """Nothing new."""


@dataclasses.dataclass(frozen=True)
class Trouble:
    """The Hub could not be asked, or not all of a publish could be read; it is tried again by itself. `is_news`: not told before."""

    code: str
    reason: str
    is_news: bool


@dataclasses.dataclass(frozen=True)
class Refused:
    """A publication that must not be followed, told once."""

    code: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Received:
    """A publication that has passed every check. `manifest` is None where only a later runtime can read it; `document` holds its
    bytes either way. Further files are below `base`: `fetch_files(base, publication, names, token)`."""

    publication: Publication
    manifest: Manifest | None
    document: bytes
    base: str


class Poller:
    """Follows one publication with what the pod's environment holds: HF_ENDPOINT, HF_TOKEN and the public keys."""

    def __init__(self, follow: Follow, environ: Mapping[str, str], last: Taken | None, chance: random.Random | None = None) -> None:
        self._follow, self._environ, self._last = follow, environ, last
        self._follower = Follower(follow.poll_s, chance)
        self._told = ""

    @property
    def next_at(self) -> float:
        """When to look next, on the clock that `poll` is given; negative infinity: now."""
        return self._follower.next_at

    def ask_now(self) -> None:
        """Make the next look due."""
        self._follower.ask_now()

    def took(self, publication: Publication) -> Taken:
        """Note that a publication was taken over, and give what must be on disk for the next runtime."""
        self._last = Taken(publication.sequence, publication.sha256())
        self._follower.settled()
        return self._last

    def poll(self, now: float) -> Quiet | Trouble | Refused | Received:
        """Look once; blocks for up to `ASK_TIMEOUT_S`, and with a new publication for its manifest, too. Raises nothing."""
        found = self._follower.answered(now, self._asked())
        if isinstance(found, Unchanged):
            self._told = ""
            return Quiet()
        if not isinstance(found, Published):
            return self._trouble(found.code, found.reason)
        try:
            return self._received(found)
        except HubError as error:
            return self._trouble(error.kind, str(error))
        except PublicationError as error:
            self._follower.settled()
            return Refused(error.reason, f"{self._follow.path} {error}")
        except ManifestError as error:
            self._follower.settled()
            return Refused("bad-manifest", str(error))

    def _asked(self) -> Answer | HubError:
        url = f"{base_url(self._environ, self._follow.repo)}/{self._follow.path}"
        try:
            return ask(url, self._follower.etag, self._token, ASK_TIMEOUT_S, limit=MAX_BYTES)
        except HubError as error:
            return error

    @property
    def _token(self) -> str | None:
        return self._environ.get("HF_TOKEN") or None

    def _received(self, found: Published) -> Quiet | Received:
        keys = public_keys(self._environ.get(self._follow.public_key_env, ""))
        publication = verify(found.document, keys, allow_unsigned=self._follow.allow_unsigned)
        if not check_order(publication, self._follow.path, self._last):
            self._follower.settled()
            self._told = ""
            return Quiet()
        base = base_url(self._environ, self._follow.repo, found.commit)
        path = publication.manifest_path
        document = fetch_files(base, publication, [path], self._token)[path]
        try:
            manifest = Manifest.from_bytes(document)
        except NewerSchemaError:
            manifest = None
        self._told = ""
        return Received(publication, manifest, document, base)

    def _trouble(self, code: str, reason: str) -> Trouble:
        is_news, self._told = code != self._told, code
        return Trouble(code, reason, is_news)
