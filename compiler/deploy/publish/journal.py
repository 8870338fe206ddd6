"""`podwright journal`: what pods mirror to the Hub, for pods without a shell and for those that are gone."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from compiler.console import print_json
from compiler.deploy.clock import Clock, SystemClock
from compiler.deploy.failures import DeployError
from compiler.deploy.outcome import OK, failed
from compiler.deploy.publish.refusals import NoJournal
from compiler.deploy.publish.repository import Repository
from compiler.deploy.state_file import FOLDER, StateFile
from compiler.diagnostics import printable
from compiler.plan import Plan
from compiler.secrets import masked

IN_REPOSITORY = "state"
# A pod that boots mirrors its journal every minute or so; asking more often shows nothing earlier.
LOOK_S = 10.0
# Documents of pods that are long gone stay; reading the last few dozens is enough to find those of one profile.
MOST_READ = 40
_HEAD = re.compile(r"===== podwright: pod (?P<pod>\S+), profile (?P<profile>[^,\s]+), .*=====")
_TITLE = re.compile(r"----- (.+) -----")


@dataclasses.dataclass(frozen=True, slots=True)
class Mirrored:
    """One document. `sections` maps a title to its lines; the lines of the head are under ""."""

    path: str
    pod: str
    profile: str
    at: str
    state: str
    sections: dict[str, tuple[str, ...]]

    @property
    def journal(self) -> tuple[str, ...]:
        """The lines of the journal."""
        return self.sections.get("journal", ())

    def text(self, lines: int) -> str:
        """For a person: all of it, the journal cut to its last lines."""
        parts = [*self.sections.get("", ())]
        for title, body in self.sections.items():
            if title:
                parts += ["", f"----- {title} -----", *(body[-lines:] if title == "journal" else body)]
        return "\n".join(parts)

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "pod": self.pod,
            "profile": self.profile,
            "at": self.at,
            "state": self.state,
            "path": self.path,
            "sections": {k or "head": list(v) for k, v in self.sections.items()},
        }


def run_journal(
    plan: Plan,
    *,
    pod: str | None,
    lines: int,
    follow: bool,
    as_json: bool,
    folder: Path = FOLDER,
    clock: Clock | None = None,
    looks: int | None = None,
) -> int:
    """Print what the profile's pod mirrored; with `follow` go on until the reader leaves, or for `looks` more looks. Gives the exit code."""
    try:
        if plan.journal is None:
            raise NoJournal(
                f"{plan.profile} mirrors no journal",
                "A pod's own log dies with its container.",
                "Add `journal: {repo: you/journal}` to the profile; the pod needs HF_TOKEN with write access.",
            )
        repository = Repository(plan.journal.repo)
        found = chosen(documents(repository, plan.profile), pod or _own_pod(plan, folder), plan, repository.name)
        if as_json:
            print_json({"ok": True, **found.to_json()})
            return OK
        print(found.text(lines), flush=True)
        if follow:
            _follow(repository, found, clock or SystemClock(), looks)
    except DeployError as failure:
        return failed(failure, as_json=as_json)
    return OK


def documents(repository: Repository, profile: str) -> list[Mirrored]:
    """The profile's documents, the newest first."""
    paths = [path for path in repository.files_in(IN_REPOSITORY) if path.endswith(".log")]
    found = (
        read(path, content.decode("utf-8", "replace"))
        for path in paths[-MOST_READ:]
        if (content := repository.file(path, "main")) is not None
    )
    return sorted((d for d in found if d is not None and d.profile == profile), key=lambda d: d.at, reverse=True)


def read(path: str, text: str) -> Mirrored | None:
    """A document in its parts; None for a file of something else. Control characters and what looks like a secret are taken out."""
    sections: dict[str, list[str]] = {"": []}
    title = ""
    for line in masked(text).splitlines():
        if found := _TITLE.fullmatch(line):
            title = found[1]
            sections.setdefault(title, [])
        else:
            sections[title].append(printable(line))
    head = sections[""]
    named = _HEAD.match(head[0]) if head else None
    if named is None:
        return None
    facts = dict(line.split(" ", 1) for line in head[1:] if line.startswith(("UTC ", "state: ")))
    kept = {name: tuple(_trimmed(body)) for name, body in sections.items()}
    return Mirrored(path, named["pod"], named["profile"], facts.get("UTC", ""), facts.get("state:", ""), kept)


def chosen(found: Sequence[Mirrored], pod: str | None, plan: Plan, repo: str) -> Mirrored:
    """The newest document of a pod, or of any; others are named on stderr. Raises NoJournal."""
    own = [d for d in found if pod is None or d.pod == pod] or ([] if pod else list(found))
    if not own:
        others = ", ".join(sorted({d.pod for d in found}))
        raise NoJournal(
            f"{repo} holds no journal of {f'pod {pod} of ' if pod else ''}{plan.profile}",
            "A pod mirrors its journal when HF_TOKEN may write there, and first when its runtime starts.",
            f"There are journals of {others}: name one with --pod."
            if others
            else f"`podwright logs {plan.profile}` shows the container's own log while it lives.",
        )
    if rest := sorted({d.pod for d in found} - {own[0].pod}):
        print(f"journals of other pods, for --pod: {', '.join(rest)}", file=sys.stderr)
    return own[0]


def _own_pod(plan: Plan, folder: Path) -> str | None:
    record = StateFile(plan.profile, folder).read().pod
    return record.id if record else None


def _follow(repository: Repository, before: Mirrored, clock: Clock, looks: int | None) -> None:
    """Print what is new in the journal whenever a newer copy is there."""
    looked = 0
    while looks is None or looked < looks:
        looked += 1
        clock.sleep(LOOK_S)
        content = repository.file(before.path, "main")
        now = read(before.path, content.decode("utf-8", "replace")) if content is not None else None
        if now is None or now.at == before.at:
            continue
        if now.state != before.state:
            print(f"{now.at} state: {now.state}", flush=True)
        for line in news(before.journal, now.journal):
            print(line, flush=True)
        before = now


def news(before: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Lines after the last one that was known; all of them when that one is gone."""
    if before and before[-1] in now:
        return now[len(now) - list(reversed(now)).index(before[-1]) :]
    return now


def _trimmed(lines: Sequence[str]) -> Iterator[str]:
    """Without the empty lines at its end."""
    body = list(lines)
    while body and not body[-1]:
        body.pop()
    yield from body
