"""When to ask for the publication and what an answer means; and the files that a publication names, each checked.

`Follower` decides and does nothing: the caller asks with `pod.hub.client.ask`, hands the answer in, and says when a publication was
dealt with. `now` is in seconds of any clock that never jumps.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from pod.hub.client import Answer, HubError, ask, same_etag
from pod.publication import Publication

DEFAULT_ENDPOINT = "https://huggingface.co"
# A question is a few kilobytes either way. One that takes longer is worth asking anew: it must not cost a whole period.
ASK_TIMEOUT_S = 15.0
# A payload has under a megabyte; on a slow line that is half a minute.
FETCH_TIMEOUT_S = 60.0
# Pods that were started together must not ask together. Only downwards, so that the pauses above stay the longest ones.
JITTER = 0.15
# Shares of the period after which the next question comes: so early that with a period of 30 s the engine is being stopped within 35 s of
# the publish, although its command line is first checked by the engine's own parser, which takes 6 to 10 s on an idle machine.
EARLIEST, LATEST = 0.65, 0.8
# A busy Hub is left alone ever longer, up to this.
LONGEST_PAUSE_S = 600.0
# A pod without network is in trouble itself; when it is back, following must be, too.
LONGEST_OFFLINE_PAUSE_S = 120.0
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclasses.dataclass(frozen=True)
class Unchanged:
    """Nothing was published since the last answer that was settled."""


@dataclasses.dataclass(frozen=True)
class Published:
    """Bytes that claim to be a publication, and the commit at which its files are (None where the Hub named none)."""

    document: bytes
    commit: str | None


@dataclasses.dataclass(frozen=True)
class Wait:
    """No answer that could be used. `code` is for programs; `is_news` is False while the same goes on, and then there is
    nothing to write down."""

    code: str
    reason: str
    seconds: float
    is_news: bool


class Follower:
    """Paces the questions after one file. Ask when `due`, with `etag`; hand the outcome to `answered`; after Published call
    `settled` once it was taken over or refused for good, or else the same file is handed out again at the next question."""

    def __init__(self, poll_s: float, chance: random.Random | None = None) -> None:
        self.etag: str | None = None
        self.next_at = float("-inf")
        self._poll_s, self._chance = poll_s, chance or random.Random()
        self._failures, self._trouble = 0, ""
        self._settled = ""
        self._offered: tuple[str | None, str] = (None, "")

    def due(self, now: float) -> bool:
        """Whether it is time to ask; at once at the start."""
        return now >= self.next_at

    def ask_now(self) -> None:
        """Ask at the next opportunity, whatever was planned."""
        self.next_at = float("-inf")

    def settled(self) -> None:
        """What was handed out last needs no second look."""
        self.etag, self._settled = self._offered

    def answered(self, now: float, outcome: Answer | HubError) -> Unchanged | Published | Wait:
        """What an outcome means, and when to ask next."""
        if isinstance(outcome, Answer) and outcome.status in (200, 304):
            self._failures, self._trouble = 0, ""
            self.next_at = now + self._within_period()
            digest = hashlib.sha256(outcome.body).hexdigest()
            if outcome.status == 304 or digest == self._settled:
                return self._unchanged(outcome)
            self._offered = (outcome.etag, digest)
            return Published(outcome.body, outcome.commit)
        code, reason, pause = self._trouble_of(outcome)
        is_news, self._trouble = code != self._trouble, code
        self.next_at = now + pause
        return Wait(code, reason, pause, is_news)

    def _unchanged(self, answer: Answer) -> Unchanged:
        """The Hub may name the same content anew, for instance after it was moved to another store."""
        if answer.status == 200 and answer.etag and not same_etag(answer.etag, self.etag):
            self.etag = answer.etag
        return Unchanged()

    def _trouble_of(self, outcome: Answer | HubError) -> tuple[str, str, float]:
        if isinstance(outcome, HubError):
            return outcome.kind, str(outcome), self._backed_off(LONGEST_OFFLINE_PAUSE_S)
        if outcome.status in BUSY:
            pause = max(self._backed_off(LONGEST_PAUSE_S), outcome.retry_after_s or 0.0)
            return "busy", f"the Hub answers {outcome.status}", pause
        if outcome.status in (404, 410):
            self._failures = 0
            return "not-found", "nothing was published there yet, or the token may not see it", self._within_period()
        pause = self._backed_off(LONGEST_PAUSE_S)
        if outcome.status in (401, 403):
            return "denied", f"the Hub answers {outcome.status}: the repository is private and HF_TOKEN may not read it", pause
        return "status", f"the Hub answers {outcome.status}", pause

    def _backed_off(self, longest: float) -> float:
        """The period, doubled with every failure in a row."""
        self._failures += 1
        return self._jittered(min(self._poll_s * 2.0 ** min(self._failures - 1, 20), max(longest, self._poll_s)))

    def _within_period(self) -> float:
        return self._poll_s * self._chance.uniform(EARLIEST, LATEST)

    def _jittered(self, seconds: float) -> float:
        return seconds * self._chance.uniform(1.0 - JITTER, 1.0)


def base_url(environ: Mapping[str, str], repo: str, revision: str | None = None) -> str:
    """The address below which a repository's files are, at a commit or at the head of its default branch."""
    endpoint = (environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    return f"{endpoint}/{quote(repo)}/resolve/{quote(revision or 'main', safe='')}"


def fetch_files(
    base: str, publication: Publication, names: Iterable[str], token: str | None, timeout_s: float = FETCH_TIMEOUT_S
) -> dict[str, bytes]:
    """The contents of some of a publication's files, below `base`. `timeout_s` bounds each.

    Raises HubError: `hash` where one is not what the publication names, `status` where the Hub refuses it. Nothing is returned then.
    """
    contents = {}
    for name in names:
        answer = ask(f"{base}/{quote(name)}", None, token, timeout_s)
        if answer.status != 200:
            raise HubError("status", f"the Hub answers {answer.status} for {name}, which the publication names")
        found = hashlib.sha256(answer.body).hexdigest()
        if found != publication.files[name]:
            raise HubError("hash", f"{name} has sha256 {found[:16]}..., and the publication says {publication.files[name][:16]}...")
        contents[name] = answer.body
    return contents
