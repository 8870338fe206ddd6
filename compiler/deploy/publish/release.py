"""What one publish consists of: the files of a bundle by their path in the repository, and the signed publication that names them."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Literal

from pod.contract import Manifest, ManifestError
from pod.publication import (
    MAX_BYTES,
    SCHEMA_VERSION,
    Publication,
    PublicationError,
    payload_path,
    publication_path,
    unsigned,
    verify,
)

from compiler.artifact import Bundle
from compiler.deploy.publish.refusals import NothingGood, TooLarge
from compiler.deploy.publish.repository import Repository
from compiler.deploy.signing import SigningKey, sign_publication
from compiler.render.payload import render_runtime

When = Literal["now", "idle"]
_BUNDLE_PAYLOAD = "payload.tar.bz2"
TITLE = "Publish {profile} {sequence}"


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Something that can be published. `files` are those to upload; `named` maps all paths that the publication names to their sha256."""

    profile: str
    manifest: Manifest
    files: Mapping[str, bytes]
    named: Mapping[str, str]
    runtime: str | None

    def publication(self, sequence: int, when: When, now: float, note: str) -> Publication:
        """The publication of it."""
        return Publication(SCHEMA_VERSION, self.profile, sequence, round(now, 3), when, dict(self.named), self.runtime, note)

    def is_in(self, publication: Publication) -> bool:
        """Whether a publication names exactly these files."""
        return publication.files == dict(self.named) and publication.runtime == self.runtime


@dataclasses.dataclass(frozen=True, slots=True)
class Published:
    """A publication that is, or was, in the repository: at which commit, its own bytes, and its manifest (None: it cannot be read)."""

    commit: str
    publication: Publication
    manifest: Manifest | None


def release_of(bundle: Bundle, image_files: Mapping[str, bytes]) -> Release:
    """What a compiled profile publishes: manifest, bootstrap, the pod's program, and the payload of images that are not prebaked."""
    parts, runtime = bundle.by_path(), render_runtime(image_files)
    profile = bundle.profile
    files = {
        f"{profile}/manifest.json": parts["manifest.json"].content,
        f"{profile}/bootstrap.sh": parts["bootstrap.sh"].content,
        payload_path(runtime.sha256): runtime.content,
    }
    if _BUNDLE_PAYLOAD in parts:
        files[payload_path(parts[_BUNDLE_PAYLOAD].sha256)] = parts[_BUNDLE_PAYLOAD].content
    named = {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    return Release(profile, Manifest.from_bytes(parts["manifest.json"].content), files, named, runtime.sha256)


def release_again(repository: Repository, earlier: Published, head: str) -> Release:
    """What an earlier publication consisted of, to be published once more. Raises NothingGood when its files are gone."""
    publication = earlier.publication
    files: dict[str, bytes] = {}
    for path, digest in publication.files.items():
        if path.startswith(f"{publication.profile}/"):
            content = repository.file(path, earlier.commit)
            if content is None or hashlib.sha256(content).hexdigest() != digest:
                raise _damaged(publication, path)
            files[path] = content
    payloads = [path for path in publication.files if path not in files]
    if payloads and not repository.has(payloads, head):
        raise _damaged(publication, payloads[0])
    if earlier.manifest is None:
        raise _damaged(publication, publication.manifest_path)
    return Release(publication.profile, earlier.manifest, files, publication.files, publication.runtime)


def document(publication: Publication, key: SigningKey | None, today: datetime.date) -> bytes:
    """The file for the Hub, signed unless there is no key. Raises SigningKeyExpired, TooLarge."""
    content = unsigned(publication) if key is None else sign_publication(publication, key, today)
    if len(content) > MAX_BYTES:
        raise TooLarge(
            f"the publication has {len(content):,} bytes; pods read at most {MAX_BYTES:,}", "Nothing was published.", "Shorten the note."
        )
    return content


def published_at(repository: Repository, profile: str, commit: str) -> Published | None:
    """What was published at a commit; None where there is nothing, or nothing that a pod could read. Its signature is the pods' affair."""
    content = repository.file(publication_path(profile), commit)
    if content is None:
        return None
    try:
        publication = verify(content, (), allow_unsigned=True)
    except PublicationError:
        return None
    raw = repository.file(publication.manifest_path, commit)
    try:
        manifest = Manifest.from_bytes(raw) if raw is not None else None
    except ManifestError:
        manifest = None
    return Published(commit, publication, manifest)


def last_sequence(repository: Repository, profile: str, published: Published | None) -> int:
    """The highest number that this profile was published under, 0 for none; from the history where the file itself cannot be read."""
    if published is not None:
        return published.publication.sequence
    return max((n for change in repository.history() if (n := _sequence_in(change.title, profile)) is not None), default=0)


def earlier_publications(repository: Repository, profile: str) -> list[tuple[int, str]]:
    """Number and commit of every publish that the history tells of, the newest first."""
    found = ((_sequence_in(change.title, profile), change.commit) for change in repository.history())
    return [(number, commit) for number, commit in found if number is not None]


def title_of(profile: str, sequence: int, note: str) -> str:
    """The commit's title: how the history of a profile is found again."""
    first = next(iter(note.splitlines()), "")[:100]
    return TITLE.format(profile=profile, sequence=sequence) + (f": {first}" if first else "")


def differences(old: Manifest, new: Manifest) -> list[str]:
    """Routes of the manifest that differ, with both values; long ones cut."""
    return list(_differences("", old.to_json(), new.to_json()))


def _differences(route: str, old: object, new: object) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            line for key in dict.fromkeys([*old, *new]) for line in _differences(f"{route}.{key}".lstrip("."), old.get(key), new.get(key))
        ]
    if old == new:
        return []
    if isinstance(old, list) and isinstance(new, list) and all(isinstance(v, str) for v in [*old, *new]):
        gone, come = [v for v in old if v not in new], [v for v in new if v not in old]
        if gone or come:
            return [f"{route}: {_short(' '.join(gone)) or 'nothing'} -> {_short(' '.join(come)) or 'nothing'}"]
    return [f"{route}: {_short(json.dumps(old, ensure_ascii=False))} -> {_short(json.dumps(new, ensure_ascii=False))}"]


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def _sequence_in(title: str, profile: str) -> int | None:
    beginning, _, number = title.partition(":")[0].rpartition(" ")
    return int(number) if beginning == f"Publish {profile}" and number.isdecimal() else None


def _damaged(publication: Publication, path: str) -> NothingGood:
    return NothingGood(
        f"publication {publication.sequence} cannot be published again: {path} is gone or was changed",
        "A publish must hold every file that it names.",
        "Check the profile out as it was and run `podwright publish`.",
    )
