"""The Hub repository that pods follow: its head, files at a commit, its history, and one commit that holds a whole publish."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from compiler import __version__
from compiler.deploy.failures import BadAnswer, Denied, NotFound, ServerBusy, Unreachable
from compiler.deploy.hub import MAX_FILE_BYTES, HubClient
from compiler.deploy.publish.refusals import NobodyKnows, NoRepository, NoRights, Overtaken, TooLarge

# A pod reads no larger file than this (pod.hub.client), and nothing that is published here is near it.
LARGEST_FILE = 16 << 20
# Other commits (a mirrored journal, another profile) may come in between; more than this in a row is a repository that is never quiet.
COMMIT_ATTEMPTS = 6


class FileMissing(NotFound):
    """There is no such file at that commit."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One commit of the history: its id and title."""

    commit: str
    title: str


class Repository(HubClient):
    """One repository. Raises Unreachable, ServerBusy, NoRepository, NoRights, BadAnswer; `commit` also Overtaken, TooLarge, NobodyKnows."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(**options)
        self.name = name

    def head(self) -> str:
        """The commit that its default branch stands at."""
        return self.facts(self.name).revision

    def create(self) -> None:
        """Make it, private."""
        self._asked(self.name, lambda: self._api.create_repo(self.name, private=True, exist_ok=True))

    def file(self, path: str, commit: str) -> bytes | None:
        """A small file at a commit; None where there is none."""
        url = f"{self.endpoint}/{self.name}/resolve/{commit}/{path}"
        try:
            content: bytes = self._asked(f"{self.name}/{path}", lambda: self._get(url))
        except FileMissing:
            return None
        return content

    def has(self, paths: list[str], commit: str) -> bool:
        """Whether all those files exist at a commit."""
        found = self._asked(self.name, lambda: self._api.get_paths_info(self.name, paths, revision=commit))
        return {entry.path for entry in found} >= set(paths)

    def files_in(self, folder: str) -> list[str]:
        """Paths of the files below a folder at the head; none where there is no such folder."""
        from huggingface_hub.hf_api import RepoFile

        try:
            return sorted(
                e.path
                for e in self._asked(f"{self.name}/{folder}", lambda: list(self._api.list_repo_tree(self.name, folder)))
                if isinstance(e, RepoFile)
            )
        except FileMissing:
            return []

    def history(self) -> list[Change]:
        """All commits, the newest first."""
        return [Change(c.commit_id, c.title) for c in self._asked(self.name, lambda: self._api.list_repo_commits(self.name))]

    def commit(self, files: Mapping[str, bytes], title: str, parent: str, guarded: str) -> str:
        """Put files into the repository, all in one commit on top of `parent`; the new commit.

        When others committed in between, that is no matter as long as the file `guarded` is as it was at `parent`; else Overtaken.
        """
        _check_sizes(files)
        before, wanted = self.file(guarded, parent), files[guarded]
        for _ in range(COMMIT_ATTEMPTS):
            try:
                return self._committed(files, title, parent)
            except _StaleParent:
                parent = self.head()
                now = self.file(guarded, parent)
                if now == wanted:
                    return parent
                if now != before:
                    raise self._overtaken() from None
            except (Unreachable, ServerBusy, BadAnswer) as failure:
                return self._settled(guarded, wanted, before, failure)
        raise ServerBusy(
            f"{self.name} gets a new commit faster than ours is made, {COMMIT_ATTEMPTS} times in a row",
            "Nothing was published.",
            "Run it again.",
        )

    def _committed(self, files: Mapping[str, bytes], title: str, parent: str) -> str:
        from huggingface_hub import CommitOperationAdd

        def made() -> str:
            operations = [CommitOperationAdd(path, content) for path, content in files.items()]
            try:
                return str(self._api.create_commit(self.name, operations, commit_message=title, parent_commit=parent).oid)
            except RuntimeError as error:  # An upload that failed hides the answer that it got.
                raise error.__cause__ or error from None

        with _quiet():
            return self._asked(self.name, made)

    def _settled(self, guarded: str, wanted: bytes, before: bytes | None, failure: Unreachable | BadAnswer) -> str:
        """The commit after all, where the answer got lost and the files are there; else the failure, or that nobody knows."""
        self._down = None
        try:
            head = self.head()
            now = self.file(guarded, head)
        except (Unreachable, BadAnswer):
            raise NobodyKnows(
                f"the way to {self.host} broke while the commit was made: {failure.what}",
                "The commit is there whole or not at all; which of the two cannot be asked now.",
                "Run the same command again when the network is back: it looks first, and publishes only what is not there.",
            ) from None
        if now == wanted:
            return head
        if now != before:
            raise self._overtaken() from None
        raise type(failure)(failure.what, f"{failure.why} Nothing was published: the repository is as it was.", failure.fix) from None

    def _overtaken(self) -> Overtaken:
        return Overtaken(
            f"somebody else published to {self.name} meanwhile",
            "Two publishers must not overwrite each other unseen. Nothing of ours was published.",
            "Run the command again: it then shows what changes against theirs.",
        )

    @property
    def _api(self) -> Any:
        from huggingface_hub import HfApi

        return HfApi(endpoint=self.endpoint, token=self._token, library_name="podwright", library_version=__version__)

    def _refusal(self, error: Any, status: int, subject: str) -> NotFound | Denied | BadAnswer:
        from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

        if status == 412 or (status == 409 and "commit" in subject):
            raise _StaleParent from None
        if isinstance(error, EntryNotFoundError):
            return FileMissing(
                f"{self.host} has no {subject}", "It was never published, or taken away.", "Look into the repository on the Hub."
            )
        if status == 413 or (status == 400 and "too large" in str(error).casefold()) or "exceed" in str(error).casefold():
            raise TooLarge(
                f"{self.host} refuses a file of {self.name} as too large ({status})",
                "The Hub limits the size of a file and of an account's storage. Nothing was published.",
                "Remove old payloads from the repository, or look at the account's storage on the Hub.",
            ) from None
        if status in (401, 403) and not isinstance(error, RepositoryNotFoundError):
            raise self._no_rights(status) from None
        if isinstance(error, RepositoryNotFoundError) or status == 404:
            raise self._no_repository(status) from None
        return super()._refusal(error, status, subject)

    def _no_rights(self, status: int) -> NoRights:
        what = f"{self.host} refuses the token" if status == 401 else f"the token may not do that with {self.name}"
        return NoRights(
            f"{what} ({status})",
            "Publishing needs an account with the right to write to the repository. Nothing was published.",
            "Set HF_TOKEN to a token of kind write (or fine-grained with write access to this repository); `hf auth whoami` says whose it is.",
        )

    def _no_repository(self, status: int) -> NoRepository:
        hidden = (
            " Without a token the Hub says the same of one that is private."
            if status == 401
            else " The Hub says the same of one that this account may not see."
        )
        return NoRepository(
            f"{self.host} has no repository {self.name}",
            f"Pods follow a repository of the Hub.{hidden}",
            "Set HF_TOKEN, correct publish.repo in the profile, or have it made: --create-repo makes a private one.",
        )


class _StaleParent(Exception):
    """The branch has moved on since."""


def _check_sizes(files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        limit = MAX_FILE_BYTES if path.endswith(".json") else LARGEST_FILE
        if len(content) > limit:
            raise TooLarge(
                f"{path} has {len(content):,} bytes; pods read at most {limit:,}",
                "A pod that cannot read what it follows stays as it is. Nothing was published.",
                "Look at what made it that large: a manifest has some kilobytes, a payload some hundred.",
            )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without huggingface_hub's progress bars, which say nothing of uploads that take a second."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    were = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not were:
            enable_progress_bars()
