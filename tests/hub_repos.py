"""Repositories as a Hub keeps them: commits on one branch, blobs with git's and LFS's names, and who may do what."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

Right = Literal["read", "write"]

# What a new repository's .gitattributes puts into large file storage, as far as anything here uploads it.
LFS_SUFFIXES = (".bin", ".bz2", ".gz", ".safetensors", ".tar", ".tgz", ".xz", ".zip", ".zst", ".gguf", ".pt", ".npz")
# The Hub takes a larger file only through large file storage.
LFS_FROM_BYTES = 10 << 20


class HubRefusal(Exception):
    """A refusal as the Hub words it: a status, and the code and text that its client reads from the headers."""

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclasses.dataclass(frozen=True)
class Blob:
    content: bytes
    is_lfs: bool

    @property
    def git_oid(self) -> str:
        """git's name: of the content, or of the pointer file that stands for it."""
        pointed = self.content if not self.is_lfs else (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.content)}\n".encode()
        )  # fmt: skip
        return hashlib.sha1(b"blob %d\0" % len(pointed) + pointed).hexdigest()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.git_oid


@dataclasses.dataclass(frozen=True)
class Commit:
    oid: str
    files: Mapping[str, Blob]
    title: str
    at: float


@dataclasses.dataclass
class Repo:
    kind: str
    name: str
    private: bool
    gated: bool
    commits: list[Commit]

    @property
    def head(self) -> Commit:
        return self.commits[-1]

    def at(self, revision: str) -> Commit:
        """The commit that a branch name, a whole commit or its beginning means."""
        if revision == "main":
            return self.head
        found = [c for c in self.commits if len(revision) >= 7 and c.oid.startswith(revision)]
        if not found:
            raise HubRefusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return found[-1]


class Store:
    """All repositories of one Hub and its accounts. `tokens` maps a token to what it may do; thread-safe."""

    def __init__(self, tokens: Mapping[str, Right]) -> None:
        self.tokens = dict(tokens)
        self.granted: set[str] = set()  # Tokens of accounts that accepted the licence of gated repositories.
        self.pending: dict[str, bytes] = {}  # Large files that were uploaded and not committed yet, by sha256.
        self.lock = threading.RLock()
        self._repos: dict[tuple[str, str], Repo] = {}

    def create(self, name: str, *, kind: str = "model", private: bool = False, gated: bool = False) -> Repo:
        with self.lock:
            if (kind, name) in self._repos:
                raise HubRefusal(409, None, "You already created this model repo")
            if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
                raise HubRefusal(400, None, f"Invalid repo name: {name}")
            first = {".gitattributes": Blob("".join(f"*{s} filter=lfs diff=lfs merge=lfs -text\n" for s in LFS_SUFFIXES).encode(), False)}
            repo = Repo(kind, name, private, gated, [_commit((), first, "initial commit")])
            self._repos[kind, name] = repo
            return repo

    def delete(self, name: str, *, kind: str = "model") -> None:
        with self.lock:
            del self._repos[kind, name]

    def repo(self, name: str, kind: str = "model") -> Repo:
        with self.lock:
            found = self._repos.get((kind, name))
        if found is None:
            raise HubRefusal(404, "RepoNotFound", "Repository not found")
        return found

    def reachable(self, name: str, kind: str, token: str | None, right: Right = "read", *, files: bool = False) -> Repo:
        """The repository, if the token's account may do this with it. `files`: it wants contents, which a gate guards."""
        if token is not None and token not in self.tokens:
            raise HubRefusal(401, None, "Invalid credentials in Authorization header")
        try:
            repo = self.repo(name, kind)
        except HubRefusal:
            if token is None:  # An anonymous caller cannot tell a missing repository from a private one.
                raise HubRefusal(401, "RepoNotFound", "Repository not found") from None
            raise
        if repo.private and token is None:
            raise HubRefusal(401, "RepoNotFound", "Repository not found")
        if right == "write" and self.tokens.get(token or "") != "write":
            raise HubRefusal(403 if token else 401, None, "You don't have the rights to write to this repository")
        if files and repo.gated and token not in self.granted:
            raise HubRefusal(403 if token else 401, "GatedRepo", f"Access to model {name} is restricted")
        return repo

    def commit(self, repo: Repo, changes: Mapping[str, Blob | None], title: str, parent: str | None = None) -> Commit:
        """A new commit on top of the head. None deletes a file. `parent` must be the head when it is given."""
        with self.lock:
            if parent is not None and not repo.head.oid.startswith(parent):
                raise HubRefusal(412, None, "A commit has happened since. Please refresh and try again.")
            files = {**repo.head.files}
            for path, blob in changes.items():
                if blob is not None:
                    files[path] = blob
                elif files.pop(path, None) is None:
                    raise HubRefusal(404, "EntryNotFound", f"{path} does not exist")
            repo.commits.append(_commit(repo.commits, files, title))
            return repo.head


def _commit(before: Sequence[Commit], files: Mapping[str, Blob], title: str) -> Commit:
    tree = "".join(f"{path} {blob.git_oid}\n" for path, blob in sorted(files.items()))
    oid = hashlib.sha1(f"{before[-1].oid if before else ''}\n{len(before)}\n{title}\n{tree}".encode()).hexdigest()
    return Commit(oid, files, title, time.time())


def tree(commit: Commit, folder: str, recursive: bool) -> list[dict[str, Any]]:
    """The entries of a folder as the Hub lists them."""
    prefix = f"{folder.strip('/')}/" if folder.strip("/") else ""
    rows: dict[str, dict[str, Any]] = {}
    for path, blob in sorted(commit.files.items()):
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
            parent = prefix + "/".join(parts[:depth])
            rows.setdefault(parent, {"type": "directory", "path": parent, "oid": hashlib.sha1(parent.encode()).hexdigest(), "size": 0})
        if recursive or len(parts) == 1:
            rows[path] = entry(path, blob)
    if prefix and not rows:
        raise HubRefusal(404, "EntryNotFound", f"{folder} does not exist on this revision")
    return list(rows.values())


def entry(path: str, blob: Blob) -> dict[str, Any]:
    """One file as the Hub lists it."""
    row: dict[str, Any] = {"type": "file", "path": path, "oid": blob.git_oid, "size": len(blob.content)}
    if blob.is_lfs:
        row["lfs"] = {"oid": blob.sha256, "size": len(blob.content), "pointerSize": 134}
    return row


def paths_info(commit: Commit, paths: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of those paths that exist."""
    return [entry(path, commit.files[path]) for path in paths if path in commit.files]


def wants_lfs(path: str, size: int) -> bool:
    return path.endswith(LFS_SUFFIXES) or size > LFS_FROM_BYTES
