"""Downloads from and uploads to the Hub: the only module that loads huggingface_hub, so it runs in a child process only.

What makes a download safe to kill at any moment and to call again: finished files are kept, a large file that comes over
plain HTTP goes on where it stopped, half files that nobody will finish are removed, and a repository has one downloader
at a time. (Files in Xet storage come through the library's own client, which begins a file anew.) The token comes from
HF_TOKEN alone and stands in no message.
"""

from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pod.hub.failures import Failure, failure_of
from pod.hub.files import repo_folder, stored_bytes, wanted, write_listing
from pod.hub.progress import Meter

Report = Callable[[dict[str, Any]], None]

# Pauses in seconds before a download that failed for a reason that may pass is begun again. They start over whenever bytes
# have come in between, so they bound one outage to about two minutes; the caller decides about longer ones.
PAUSES_S = (2.0, 10.0, 30.0, 60.0)
# Bounds one question about a repository or file; the Hub answers in well under a second.
QUESTION_S = 30.0
CONNECTIONS = 8
# A smaller file is fetched again sooner than it is asked for in parts.
WORTH_RESUMING = 16 << 20
_PART = ".podwright.incomplete"
# What the library leaves when it is killed. It names each attempt anew, so it never finishes one of these itself.
_ORPHAN = re.compile(r"\.[0-9a-f]{8}\.incomplete$")


class NoRoom(OSError):
    """Less disk is free than the download needs; raised before a byte is fetched."""


def download(
    repo: str,
    revision: str | None,
    cache: Path,
    report: Report,
    only: Sequence[str] = (),
    reserve: int = 0,
    pauses_s: Sequence[float] = PAUSES_S,
    stalled: Callable[[float], None] = lambda seconds: None,
) -> dict[str, Any]:
    """Bring `repo` into the cache. Gives {"kind": "ok", "snapshot", "total_bytes", "fetched_bytes", "seconds"}, or a failure's fields.

    `only` are patterns of file names; without them, everything that an engine opens. `reserve` bytes of disk stay free.
    `report` gets progress about once a second, and each retry. `stalled` as for `Meter`. Raises nothing.
    """
    folder, began = repo_folder(cache, repo), time.monotonic()
    try:
        with _alone(folder):
            result = _patiently(repo, revision, cache, only, reserve, report, pauses_s, stalled)
            _remove_half_files(folder, "")
    except Exception as error:
        result = (
            Failure("no-room", str(error), "start a new pod with a larger disk, or mount a larger volume")
            if isinstance(error, NoRoom)
            else failure_of(error, repo)
        ).as_json()
    return {**result, "repo": repo, "seconds": round(time.monotonic() - began, 1)}


def get(
    repo: str, path: str, target: Path, kind: str = "model", revision: str | None = None, max_bytes: int | None = None
) -> dict[str, Any]:
    """One file of a repository into `target`, whole or not at all: {"kind": "ok", "bytes"} or a failure's fields. Raises nothing."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    subject = f"{repo}/{path}"
    try:
        facts = get_hf_file_metadata(hf_hub_url(repo, path, repo_type=kind, revision=revision), token=_token(), timeout=QUESTION_S)
        if max_bytes is not None and (facts.size or 0) > max_bytes:
            return Failure(
                "too-big", f"{subject} has {facts.size:,} bytes; more than {max_bytes:,} are not taken", "look who wrote it"
            ).as_json()
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as private:
            found = hf_hub_download(repo, path, repo_type=kind, revision=facts.commit_hash or revision, cache_dir=private, token=_token())
            Path(found).resolve().replace(target)
        return {"kind": "ok", "bytes": target.stat().st_size}
    except Exception as error:
        return failure_of(error, subject).as_json()


def exists(repo: str, path: str, kind: str = "model") -> dict[str, Any]:
    """{"kind": "ok", "exists"}, or a failure's fields. A repository that is not there holds nothing. Raises nothing."""
    try:
        return {"kind": "ok", "exists": bool(_api().file_exists(repo, path, repo_type=kind))}
    except Exception as error:
        return failure_of(error, f"{repo}/{path}").as_json()


def upload(repo: str, path: str, source: Path, kind: str = "model", message: str = "", create: bool = False) -> dict[str, Any]:
    """Put the file `source` at `path` of a repository: {"kind": "ok", "commit", "bytes"} or a failure's fields.

    `create` makes a private repository where there is none. Raises nothing.
    """
    try:
        api = _api()
        if create and not api.repo_exists(repo, repo_type=kind):
            api.create_repo(repo, repo_type=kind, private=True, exist_ok=True)
        commit = api.upload_file(
            path_or_fileobj=source, path_in_repo=path, repo_id=repo, repo_type=kind, commit_message=message or f"Update {path}"
        )
        return {"kind": "ok", "commit": str(getattr(commit, "oid", "")), "bytes": source.stat().st_size}
    except Exception as error:
        return failure_of(error, f"{repo}/{path}", is_write=True).as_json()


def _patiently(
    repo: str,
    revision: str | None,
    cache: Path,
    only: Sequence[str],
    reserve: int,
    report: Report,
    pauses_s: Sequence[float],
    stalled: Callable[[float], None],
) -> dict[str, Any]:
    folder, failed = repo_folder(cache, repo), 0
    while True:
        before = stored_bytes(folder)
        try:
            with Meter(lambda: stored_bytes(folder), report, stalled) as meter:
                return _once(repo, revision, cache, only, reserve, meter)
        except NoRoom:
            raise
        except Exception as error:
            failure = failure_of(error, repo)
            failed = 0 if stored_bytes(folder) > before else failed
            if not failure.may_pass or failed >= len(pauses_s):
                raise
            report({"event": "retry", "detail": failure.detail, "pause_s": pauses_s[failed]})
            time.sleep(pauses_s[failed])
            failed += 1


def _once(repo: str, revision: str | None, cache: Path, only: Sequence[str], reserve: int, meter: Meter) -> dict[str, Any]:
    from huggingface_hub import snapshot_download

    folder = repo_folder(cache, repo)
    _remove_half_files(folder, _PART)
    facts = _api().model_info(repo, revision=revision, files_metadata=True, timeout=QUESTION_S)
    siblings = {s.rfilename: s for s in facts.siblings or ()}
    names = sorted(n for n in siblings if any(fnmatch.fnmatchcase(n, pattern) for pattern in only)) if only else wanted(siblings)
    sizes = {name: int(siblings[name].size or 0) for name in names}
    snapshot = folder / "snapshots" / str(facts.sha)
    missing = [name for name in names if not _is_there(snapshot / name, sizes[name])]
    to_fetch = sum(sizes[name] for name in missing)
    begun = sum(part.stat().st_size for part in folder.glob(f"blobs/*{_PART}"))
    _check_room(cache, to_fetch - begun, reserve)
    meter.expect(sum(sizes.values()), sum(sizes.values()) - to_fetch + begun)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(lambda name: _fetch_in_parts(repo, str(facts.sha), siblings[name], folder), missing))
    snapshot = Path(
        snapshot_download(repo, revision=revision, cache_dir=cache, token=_token(), allow_patterns=names or ["-"], max_workers=CONNECTIONS)
    )
    if not only and snapshot.name == facts.sha:
        write_listing(folder, snapshot.name, sizes)
    return {"kind": "ok", "snapshot": str(snapshot), "total_bytes": sum(sizes.values()), "fetched_bytes": to_fetch}


def _is_there(file: Path, size: int) -> bool:
    """Whether a file of the snapshot is whole. A blob of another length is removed: the library would take it as it is.

    A JSON file that is no link was repaired in place, and its length says nothing.
    """
    if not file.exists():
        return False
    was_repaired = file.suffix == ".json" and not file.is_symlink()
    if was_repaired or file.stat().st_size == size:
        return True
    file.resolve().unlink()
    file.unlink(missing_ok=True)
    return False


def _fetch_in_parts(repo: str, commit: str, sibling: Any, folder: Path) -> None:
    """A large file over plain HTTP into the blob store, from where an earlier attempt stopped. Others are left to the library."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get

    sha, size = getattr(sibling.lfs, "sha256", None), int(sibling.size or 0)
    blob = folder / "blobs" / str(sha)
    if sha is None or size < WORTH_RESUMING or blob.exists():
        return
    url = hf_hub_url(repo, sibling.rfilename, revision=commit)
    facts = get_hf_file_metadata(url, token=_token(), timeout=QUESTION_S)
    if getattr(facts, "xet_file_data", None) is not None and _has_xet():
        return
    part = blob.with_name(f"{sha}{_PART}")
    if part.exists() and part.stat().st_size > size:
        part.unlink()
    with part.open("ab") as stream:
        http_get(facts.location, stream, resume_size=stream.tell(), headers=_headers(facts.location, url), expected_size=size)
    with part.open("rb") as stream:
        found = _sha256(stream)
    if found != sha:
        part.unlink()
        raise OSError(f"Consistency check failed: {sibling.rfilename} arrived with sha256 {found} instead of {sha}")
    part.replace(blob)


def _headers(location: str, url: str) -> dict[str, str]:
    """The token goes to the Hub itself and never to the storage that it points at."""
    token = _token()
    own = urlsplit(location).netloc == urlsplit(url).netloc
    return {"Accept-Encoding": "identity", **({"Authorization": f"Bearer {token}"} if token and own else {})}


def _has_xet() -> bool:
    from huggingface_hub import constants
    from huggingface_hub.utils import is_xet_available

    return bool(is_xet_available()) and not constants.HF_HUB_DISABLE_XET


def _check_room(cache: Path, need: int, reserve: int) -> None:
    found = os.statvfs(cache)
    free = found.f_bavail * found.f_frsize
    if need > 0 and free < need + reserve:
        raise NoRoom(
            f"{need / (1 << 30):.2f} GiB are still to be fetched, {cache} has {free / (1 << 30):.2f} GiB free, "
            f"and {reserve / (1 << 30):.2f} GiB must stay free"
        )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process downloads this repository. The lock ends with its process."""
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    with (folder / "podwright.lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _remove_half_files(folder: Path, keep: str) -> None:
    for file in folder.glob("blobs/*.incomplete"):
        if file.name.endswith(_PART) if not keep else _ORPHAN.search(file.name):
            file.unlink(missing_ok=True)


def _sha256(stream: Any) -> str:
    digest = hashlib.sha256()
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(token=_token(), library_name="podwright-pod")


def _token() -> str | bool:
    """False keeps the library from looking for a token anywhere else."""
    return os.environ.get("HF_TOKEN") or False
