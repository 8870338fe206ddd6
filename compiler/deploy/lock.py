"""`podwright lock`: ask the Hub and the registries what a profile's names mean today, and keep the answer in its lock."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from compiler.deploy.failures import BadAnswer, BadReference, DeployError, LockNotWritten, NotFound, NothingReached, Unreachable
from compiler.deploy.hub import HubClient, RepoFacts
from compiler.deploy.registry import RegistryClient
from compiler.resolve.image import base_image
from compiler.schema.lock import LockedRepo, LockSpec
from compiler.schema.model import EnginePatch
from compiler.schema.specset import SpecSet

ProblemKind: TypeAlias = Literal["unreachable", "not-found", "denied", "bad-answer", "gated", "renamed", "moved-tag", "patch"]
Progress: TypeAlias = Callable[[str], None]

MODELINE = "# yaml-language-server: $schema=../schemas/lock.schema.json"
# Names that `podwright image` gives by default: they exist in the engine that built them and at no registry.
LOCAL_IMAGES = "podwright/"


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Something that the user must know. `incomplete` says that the lock lacks something because of it."""

    kind: ProblemKind
    subject: str
    what: str
    why: str
    fix: str
    incomplete: bool = False

    def formatted(self) -> str:
        """The problem as text, in the form that findings have."""
        return f"{'error' if self.incomplete else 'warning'}: {self.what}\n  why: {self.why}\n  fix: {self.fix}"


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One entry that differs from the current lock: a commit, a digest or a size; None where there was or is none."""

    subject: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        return f"{self.subject}: {self.old or 'not locked'} -> {self.new or 'no longer needed'}"


@dataclasses.dataclass(frozen=True, slots=True)
class LockResult:
    """A profile's new lock, what changed against the current one, and what stood in the way.

    An entry that could not be asked for keeps its old value, so a partial result is never worse than the current lock.
    """

    profile: str
    lock: LockSpec
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]

    @property
    def complete(self) -> bool:
        """Everything that the profile needs is locked, and was seen today."""
        return not any(p.incomplete for p in self.problems)

    def to_json(self) -> dict[str, object]:
        """A mapping with `profile`, `complete`, `lock`, `changes` and `problems`."""
        return {
            "profile": self.profile, "complete": self.complete, "lock": self.lock.model_dump(mode="json"),
            "changes": [dataclasses.asdict(c) for c in self.changes], "problems": [dataclasses.asdict(p) for p in self.problems],
        }  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What a profile and its swap members need: repositories and images with the commit or digest that a spec pins.

    `own` is the image that the user builds: its tag may move, a release's tag may not.
    """

    repos: dict[str, str | None]
    images: dict[str, str | None]
    patches: tuple[EnginePatch, ...]
    own: str | None


def wanted(specs: SpecSet) -> Wanted:
    """Everything that has a name in the specs and a commit or a digest outside. Generated models have neither."""
    repos: dict[str, str | None] = {}
    patches: dict[tuple[str, str], EnginePatch] = {}
    for member in (specs, *specs.swap):
        for repo, pin in _repos(member):
            repos[repo] = repos.get(repo) or pin
        patches |= {(p.repo, p.file): p for p in member.model.engine_patches}
    base, name = base_image(specs), specs.profile.container.name
    images = {base.image: base.digest}
    if name:
        images.setdefault(name, None)
    remote = {image: pin for image, pin in images.items() if not image.startswith(LOCAL_IMAGES)}
    return Wanted(repos, remote, tuple(patches.values()), name if specs.profile.container.prebaked and name != base.image else None)


def lock_profile(specs: SpecSet, hub: HubClient, registry: RegistryClient, today: str, progress: Progress) -> LockResult:
    """The lock of a profile as of `today` (YYYY-MM-DD). `progress` gets one line for each question.

    `resolved` keeps its old date while nothing else changes, so that asking again makes no difference to look at. Raises
    NothingReached when not one question was answered because no server could be reached.
    """
    names = wanted(specs)
    run = _Run(specs, hub, registry, progress)
    for repo, pin in names.repos.items():
        run.attempt(repo, partial(run.repo, repo, pin))
    for patch in names.patches:
        run.attempt(f"{patch.repo}/{patch.file}", partial(run.patch, patch))
    for image, pin in names.images.items():
        run.attempt(image, partial(run.image, image, pin, own=image == names.own))
    run.refuse_if_nothing_was_reached()
    return run.result(names, today)


def lock_text(result: LockResult) -> str:
    """The lock as `specs/locks/<profile>.yaml`: sorted, every text in double quotes, so the same lock gives the same bytes."""
    lock = result.lock
    lines = [MODELINE, "kind: lock"]
    if lock.resolved:
        lines.append(f"resolved: {json.dumps(lock.resolved)}")
    lines.append("repos:" if lock.repos else "repos: {}")
    for name, repo in sorted(lock.repos.items()):
        lines += [f"  {json.dumps(name)}:", f"    revision: {json.dumps(repo.revision)}"]
        lines += [f"    {key}: {size}" for key, size in (("size", repo.size), ("safetensors", repo.safetensors)) if size is not None]
    lines.append("images:" if lock.images else "images: {}")
    lines += [f"  {json.dumps(name)}: {json.dumps(digest)}" for name, digest in sorted(lock.images.items())]
    return "\n".join(lines) + "\n"


def write_lock(path: Path, text: str) -> bool:
    """Put `text` in place of the lock at `path`, whole or not at all; True when the file changed. Raises LockNotWritten.

    A link is followed, so that the file it points at is the one that changes.
    """
    temporary: Path | None = None
    try:
        target = path.resolve()
        content = text.encode()
        if target.is_file() and target.read_bytes() == content:
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(target.stat().st_mode & 0o777 if target.is_file() else 0o644)
        temporary.replace(target)
        return True
    except (OSError, RuntimeError) as error:  # RuntimeError: Python 3.11 and 3.12 say so of a loop of links.
        reason = getattr(error, "strerror", None) or str(error)
        raise LockNotWritten(
            f"{path} cannot be written: {reason}",
            "What was resolved is lost; an older lock stays as it was.",
            "Make the folder writable or free some space, then run it again.",
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


class _Run:
    """One pass over everything wanted: answers, problems, and what could not be asked."""

    def __init__(self, specs: SpecSet, hub: HubClient, registry: RegistryClient, progress: Progress) -> None:
        self.specs, self.hub, self.registry, self.progress = specs, hub, registry, progress
        self.repos: dict[str, LockedRepo] = {}
        self.images: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.failures: list[DeployError] = []
        self.questions = 0

    def attempt(self, subject: str, question: Callable[[], None]) -> None:
        """Ask; a failure becomes a problem and the next subject has its turn."""
        self.questions += 1
        self.progress(f"asking for {subject}")
        try:
            question()
        except DeployError as failure:
            self.failures.append(failure)
            kept = subject in self.specs.lock.repos or subject in self.specs.lock.images
            why = f"{failure.why} The current lock's entry is kept." if kept else failure.why
            self.problems.append(Problem(_kind(failure), subject, failure.what, why, failure.fix, incomplete=True))

    def repo(self, name: str, pin: str | None) -> None:
        """Lock a repository at the commit that a spec pins, else where its default branch stands."""
        facts = self.hub.facts(name, pin)
        self.repos[name] = LockedRepo(revision=facts.revision, size=facts.size, safetensors=facts.safetensors)
        if facts.name.lower() != name.lower():
            self._note(
                "renamed",
                name,
                f"{name} is now called {facts.name}",
                "The old name works only until somebody else takes it.",
                f"Write {facts.name} in the spec.",
            )
        if facts.gated:
            self._check_gate(name, facts)

    def _check_gate(self, name: str, facts: RepoFacts) -> None:
        member = next((s for s in (self.specs, *self.specs.swap) if s.model.checkpoint.repo == name), None)
        if not self.hub.may_download(name):
            self._note(
                "gated",
                name,
                f"{name} is gated and this account may not download it",
                "The pod gets the same refusal unless its token's account accepted the licence.",
                f"Accept it at {self.hub.endpoint}/{name} with the account whose token the pod has.",
            )
        if member is not None and not member.model.checkpoint.gated:
            place = member.place("model", "checkpoint", "gated")
            self._note(
                "gated",
                name,
                f"{place} does not say that {name} is gated",
                "Nothing then asks for the token that the pod needs.",
                "Write `gated: true` under `checkpoint`.",
            )

    def patch(self, patch: EnginePatch) -> None:
        """Compare an engine patch with the sha256 that a person put into the spec after reading it. Never locked by itself."""
        subject = f"{patch.repo}/{patch.file}"
        revision = self.hub.facts(patch.repo).revision
        found = self.hub.file_sha256(patch.repo, patch.file, revision)
        if patch.sha256 is None:
            self._note(
                "patch",
                subject,
                f"{subject} has no sha256 in its spec; at commit {revision[:12]} it is {found}",
                "The pod refuses to run a script that nobody vouched for.",
                "Read the file at that commit, then write this sha256 into `engine_patches`.",
                incomplete=True,
            )
        elif patch.sha256 != found:
            self._note(
                "patch",
                subject,
                f"{subject} is no longer the file that was reviewed: at commit {revision[:12]} it is {found}",
                "The pod refuses it, so the next pod does not start.",
                "Read the new file, then write its sha256 into `engine_patches`.",
                incomplete=True,
            )

    def image(self, name: str, pin: str | None, *, own: bool) -> None:
        """Lock an image at the digest that a spec pins, else where its tag points."""
        current = self._current_digest(name, pin)
        if pin and current != pin:
            self.registry.digest(f"{name}@{pin}")
        locked = pin or current
        if locked:
            self.images[name] = locked
        before = pin or self.specs.lock.images.get(name)
        if before and before != current and not own:
            keeps = "The digest in the engine spec stays in force." if pin else "The lock now holds the new one."
            self._note(
                "moved-tag",
                name,
                f"the tag {name} now names {current or 'nothing'}, not {before}",
                f"A release was published again or withdrawn: what is built from it is another image. {keeps}",
                "Look at what the publisher changed before building from it.",
            )

    def _current_digest(self, name: str, pin: str | None) -> str | None:
        """Where the tag points. A tag that is gone matters only when no spec pins a digest: registries drop old tags."""
        try:
            return self.registry.digest(name)
        except NotFound:
            if pin is None:
                raise
            return None

    def refuse_if_nothing_was_reached(self) -> None:
        """Raise NothingReached when every question failed for want of a connection."""
        if not self.failures or len(self.failures) < self.questions or not all(isinstance(f, Unreachable) for f in self.failures):
            return
        tried = list(dict.fromkeys(f"{f.what}" for f in self.failures))
        fixes = list(dict.fromkeys(f.fix for f in self.failures))
        has_lock = self.specs.lock.repos or self.specs.lock.images
        stays = f"specs/locks/{self.specs.name}.yaml stays as it was." if has_lock else "No lock was written."
        why = "\n".join([*tried, stays])
        raise NothingReached(f"nothing could be resolved for {self.specs.name}", why, "\n".join(fixes))

    def result(self, names: Wanted, today: str) -> LockResult:
        """The new lock: answers first, old entries where there was none, and nothing that no spec needs any more."""
        old = self.specs.lock
        repos = {n: self.repos.get(n) or old.repos.get(n) for n in names.repos}
        images = {n: self.images.get(n) or old.images.get(n) for n in names.images}
        kept_repos = {n: r for n, r in sorted(repos.items()) if r is not None}
        kept_images = {n: d for n, d in sorted(images.items()) if d is not None}
        changes = _changes(_entries(old.repos, old.images), _entries(kept_repos, kept_images))
        resolved = today if changes or not old.resolved else old.resolved
        lock = LockSpec(kind="lock", resolved=resolved, repos=kept_repos, images=kept_images)
        return LockResult(self.specs.name, lock, changes, tuple(self.problems))

    def _note(self, kind: ProblemKind, subject: str, what: str, why: str, fix: str, *, incomplete: bool = False) -> None:
        self.problems.append(Problem(kind, subject, what, why, fix, incomplete))


def _repos(member: SpecSet) -> list[tuple[str, str | None]]:
    """Repositories of one model: checkpoint, draft in use, tokenizer; each with the commit that its spec pins."""
    checkpoint, tokenizer, speculation = member.model.checkpoint, member.model.tokenizer, member.profile.speculation
    found: list[tuple[str, str | None]] = []
    if checkpoint.repo:
        found.append((checkpoint.repo, checkpoint.revision))
    if speculation is not None and speculation.method != "off" and speculation.draft is not None:
        found.append((speculation.draft.repo, speculation.draft.revision))
    if tokenizer is not None:
        found.append((tokenizer.repo, tokenizer.revision))
    return found


def _entries(repos: dict[str, LockedRepo], images: dict[str, str]) -> dict[str, str]:
    """Everything in a lock as text, by subject."""
    found: dict[str, str] = {}
    for name, repo in repos.items():
        found[name] = repo.revision
        found |= {
            f"{name} ({what})": f"{size} bytes" for what, size in (("all files", repo.size), ("safetensors", repo.safetensors)) if size
        }
    return found | images


def _changes(old: dict[str, str], new: dict[str, str]) -> tuple[Change, ...]:
    return tuple(Change(key, old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key))


def _kind(failure: DeployError) -> ProblemKind:
    if isinstance(failure, Unreachable):
        return "unreachable"
    if isinstance(failure, (NotFound, BadReference)):
        return "not-found"
    return "bad-answer" if isinstance(failure, BadAnswer) else "denied"
