"""The Hugging Face Hub: the commit that a repository stands at, the sizes of its files, and small files or beginnings of large ones.

The token comes from HF_TOKEN or from huggingface_hub's own store, and no message ever holds it. HF_ENDPOINT names another
server, for instance a mirror.
"""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from compiler import __version__
from compiler.deploy.failures import BadAnswer, Denied, NotFound, ServerBusy, Unreachable
from compiler.deploy.retry import ATTEMPTS, BUSY, LONGEST_PAUSE_S, READ_TIMEOUT_S, pause_before

T = TypeVar("T")

DEFAULT_ENDPOINT = "https://huggingface.co"
# A script that patches an engine is some kilobytes; more than this is another kind of file.
MAX_FILE_BYTES = 4 << 20
_SHA = re.compile(r"[0-9a-f]{40}")
_NO_TOKEN_WHY = "The Hub answers alike for a repository that does not exist and for one that this account may not see."


@dataclasses.dataclass(frozen=True, slots=True)
class RepoFacts:
    """A repository at one commit. Sizes in bytes, None where the Hub does not state every file's size.

    `name` is what the Hub calls it now: it differs from the name asked for after a rename.
    """

    name: str
    revision: str
    size: int | None
    safetensors: int | None
    gated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """A repository's files at one commit, by name, with their bytes; licence and day of its first commit where the Hub states them."""

    name: str
    revision: str
    sizes: dict[str, int]
    gated: bool
    license: str | None
    published: str | None


class HubClient:
    """Questions to one Hub. `sleep` and `on_wait` are called around a pause that the server asked for.

    Raises Unreachable (once a server was not reached it is not tried again), ServerBusy, NotFound, Denied or BadAnswer.
    """

    def __init__(
        self, endpoint: str | None = None, token: str | None = None, *, sleep: Callable[[float], None] = time.sleep,
        on_wait: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
        self._token, self._sleep, self._on_wait = token, sleep, on_wait
        self._down: Unreachable | None = None
        self.skew_s: float | None = None
        """How far this machine's clock is ahead of the server's, by the last file that was asked for; None before."""

    @property
    def host(self) -> str:
        """Name of the server, as messages show it: never an account that its address may hold."""
        return urlsplit(self.endpoint).netloc.rpartition("@")[2] or self.endpoint

    def facts(self, repo: str, revision: str | None = None) -> RepoFacts:
        """The repository at `revision`, or where its default branch stands."""
        info = self._info(repo, revision)
        sizes = {file.rfilename: file.size for file in info.siblings or ()}
        return RepoFacts(
            str(info.id),
            info.sha,
            _total(sizes.values()),
            _total(s for name, s in sizes.items() if name.endswith(".safetensors")),
            bool(info.gated),
        )

    def listing(self, repo: str, revision: str | None = None) -> Listing:
        """The files of the repository at `revision`, or where its default branch stands; BadAnswer where a size is not stated."""
        info = self._info(repo, revision)
        sizes = {file.rfilename: file.size for file in info.siblings or ()}
        if not sizes or not all(isinstance(size, int) for size in sizes.values()):
            raise BadAnswer(
                f"{self.host} does not state the sizes of {repo}'s files",
                "What a checkpoint weighs would be a guess.",
                "Download it and read the folder instead.",
            )
        terms = (tag.removeprefix("license:") for tag in info.tags or () if isinstance(tag, str) and tag.startswith("license:"))
        made = info.created_at.date().isoformat() if isinstance(info.created_at, datetime.datetime) else None
        return Listing(str(info.id), str(info.sha), {n: s for n, s in sizes.items() if s is not None}, bool(info.gated), next(terms, None), made)

    def span(self, repo: str, file: str, revision: str, begin: int, end: int) -> bytes:
        """Bytes `begin` up to `end`, itself left out, of one file at a commit; fewer where the file is shorter."""
        url = f"{self.endpoint}/{repo}/resolve/{revision}/{quote(file)}"
        return self._asked(f"{repo}/{file}", lambda: self._get(url, end - begin, begin))

    def _info(self, repo: str, revision: str | None) -> Any:
        """The Hub's answer about a repository, with a commit that can be pinned."""
        from huggingface_hub import HfApi

        api = HfApi(endpoint=self.endpoint, token=self._token, library_name="podwright", library_version=__version__)
        subject = f"{repo}@{revision[:12]}" if revision else repo
        info = self._asked(subject, lambda: api.model_info(repo, revision=revision, files_metadata=True, timeout=READ_TIMEOUT_S))
        if not isinstance(info.sha, str) or not _SHA.fullmatch(info.sha):
            raise BadAnswer(
                f"{self.host} names no commit for {subject}",
                "Without a commit nothing can be pinned.",
                "Look whether HF_ENDPOINT names a real Hub.",
            )
        if revision and info.sha != revision:
            raise BadAnswer(
                f"{self.host} answers with commit {info.sha} for {subject}",
                "The sizes would be those of another commit.",
                "Look whether HF_ENDPOINT names a mirror that knows only one commit.",
            )
        return info

    def may_download(self, repo: str) -> bool:
        """Whether the account in use may download a gated repository's files."""
        try:
            self._asked(repo, lambda: self._get(f"{self.endpoint}/api/models/{repo}/auth-check"))
        except Denied:
            return False
        return True

    def file_sha256(self, repo: str, file: str, revision: str) -> str:
        """Hexadecimal sha256 of one small file at a commit."""
        return hashlib.sha256(self.content(repo, file, revision)).hexdigest()

    def content(self, repo: str, file: str, revision: str, limit: int = MAX_FILE_BYTES) -> bytes:
        """One file of at most `limit` bytes at a commit or branch."""
        url = f"{self.endpoint}/{repo}/resolve/{revision}/{quote(file)}"
        return self._asked(f"{repo}/{file}", lambda: self._get(url, limit))

    def _get(self, url: str, limit: int = MAX_FILE_BYTES, begin: int | None = None) -> bytes:
        """The body of one answer; or, from `begin` on, `limit` bytes of it, also where the server sends the whole file."""
        from huggingface_hub import get_session, hf_raise_for_status
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented, but not in its __all__

        headers = build_hf_headers(token=self._token, library_name="podwright", library_version=__version__)
        if begin is not None:
            headers["Range"] = f"bytes={begin}-{begin + limit - 1}"
        with get_session().stream("GET", url, headers=headers, timeout=READ_TIMEOUT_S) as response:
            self.skew_s = _skew(response.headers.get("Date", ""))
            if response.is_error:
                response.read()
            hf_raise_for_status(response)
            skipped = begin if begin is not None and response.status_code != 206 else 0
            content = b""
            for chunk in response.iter_bytes():
                content += chunk
                if begin is not None and len(content) >= skipped + limit:
                    break
                if begin is None and len(content) > limit:
                    raise BadAnswer(
                        f"{urlsplit(url).path} has more than {limit:,} bytes",
                        "A file of that name is far smaller.",
                        "Look at the file on the Hub.",
                    )
        return content[skipped : skipped + limit] if begin is not None else content

    def _asked(self, subject: str, question: Callable[[], T]) -> T:
        """The answer to one question, asked again while the server is busy."""
        if self._down is not None:
            raise self._down
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

        for attempt in range(1, ATTEMPTS + 1):
            try:
                return question()
            except OfflineModeIsEnabled as error:
                raise self._out_of_reach("HF_HUB_OFFLINE forbids it", "Unset HF_HUB_OFFLINE for this command.") from error
            except HFValidationError as error:
                raise NotFound(
                    f"{subject} is no name of a repository",
                    "The Hub has no such repository.",
                    "Write owner/name as the Hub's page shows it.",
                ) from error
            except HfHubHTTPError as error:
                self._pause_or_raise(error, attempt, subject)
            except _transport_errors() as error:
                raise self._out_of_reach(
                    str(error) or type(error).__name__, "Look at the network, HF_ENDPOINT and the proxy's variables, then run it again."
                ) from error
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise BadAnswer(
                    f"{self.host} answers nothing usable for {subject}",
                    f"Its answer is not the Hub's form: {type(error).__name__}.",
                    "Look whether HF_ENDPOINT names a real Hub and nothing stands between.",
                ) from error
        raise AssertionError("the last attempt returns or raises")

    def _pause_or_raise(self, error: Any, attempt: int, subject: str) -> None:
        """Wait before the next attempt, or raise what the answer means."""
        status: int = error.response.status_code
        if status not in BUSY:
            raise self._refusal(error, status, subject) from None  # The original's text may quote the request.
        pause = pause_before(attempt, error.response.headers, datetime.datetime.now(datetime.UTC))
        if attempt == ATTEMPTS or pause > LONGEST_PAUSE_S:
            raise self._busy(status, attempt, pause, subject) from None
        self._on_wait(f"{self.host} answers {status}; asking again in {pause:.0f} s")
        self._sleep(pause)

    def _busy(self, status: int, attempt: int, pause: float, subject: str) -> ServerBusy:
        limit = " Anonymous callers have the lowest limit; a token in HF_TOKEN raises it." if status == 429 else ""
        return ServerBusy(
            f"{self.host} answers {status} for {subject}, {_times(attempt)}",
            f"It asks callers to come back later.{limit}",
            f"Run it again in {pause:.0f} s or later.",
        )

    def _refusal(self, error: Any, status: int, subject: str) -> NotFound | Denied | BadAnswer:
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

        if isinstance(error, GatedRepoError) or status == 403:
            return Denied(
                f"{subject} is closed to this account",
                "Its files are handed out only to accounts that accepted its licence or belong to its owner.",
                f"Open {self.endpoint}/{subject.partition('@')[0]}, accept the licence, and set HF_TOKEN to that account's token.",
            )
        if isinstance(error, RevisionNotFoundError):
            return NotFound(
                f"{self.host} has no commit {subject}",
                "What a spec pins must exist, or the pod cannot download it.",
                "Take a commit from the repository's history on the Hub.",
            )
        if isinstance(error, RepositoryNotFoundError) or status == 404:
            return NotFound(
                f"{self.host} has no {subject}",
                _NO_TOKEN_WHY,
                "Look at the name; for a private repository set HF_TOKEN to a token that may read it.",
            )
        if status == 401:
            return Denied(
                f"{self.host} refuses the token",
                "A token that has ended or was mistyped is refused even where none is needed.",
                "Set HF_TOKEN to a valid token, or unset it for public repositories.",
            )
        return BadAnswer(
            f"{self.host} answers {status} for {subject}",
            "That is no answer to this question.",
            "Look whether HF_ENDPOINT names a real Hub and nothing stands between.",
        )

    def _out_of_reach(self, reason: str, fix: str) -> Unreachable:
        self._down = Unreachable(f"{self.host} cannot be reached: {reason}", "Commits and sizes are known only there.", fix)
        return self._down


def _transport_errors() -> tuple[type[Exception], ...]:
    """Errors of the way to the server. Which HTTP library raises them depends on huggingface_hub's release."""
    from huggingface_hub import get_session

    library = sys.modules[type(get_session()).__module__.partition(".")[0]]
    return (library.TransportError, library.TooManyRedirects, library.InvalidURL)


def _skew(date: str) -> float | None:
    """Seconds that this machine's clock is ahead of a `Date` field."""
    try:
        told = email.utils.parsedate_to_datetime(date)
    except ValueError:
        return None
    return time.time() - (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp()


def _total(sizes: Any) -> int | None:
    """The sum of sizes; None when one is unknown or there is nothing to add up."""
    known = list(sizes)
    return sum(known) or None if all(isinstance(s, int) for s in known) else None


def _times(attempts: int) -> str:
    return "once" if attempts == 1 else f"{attempts} times"
