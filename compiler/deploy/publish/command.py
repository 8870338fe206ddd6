"""`podwright publish` and `podwright rollback`: look, show what each pod will do, ask, commit once, and follow until the pods have it."""

from __future__ import annotations

import dataclasses
import datetime
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from pod.publication import publication_path

from compiler.artifact import Bundle
from compiler.console import print_json
from compiler.deploy.clock import Clock, SystemClock
from compiler.deploy.connection import Transport
from compiler.deploy.display import Shown, duration, shown
from compiler.deploy.failures import DeployError
from compiler.deploy.http_api import MAX_SKEW_S
from compiler.deploy.outcome import FAILED, OK, failed
from compiler.deploy.publish import forecast_text, release
from compiler.deploy.publish.checks import checked_key, refuse_what_hurts
from compiler.deploy.publish.effect import Outage
from compiler.deploy.publish.followers import Follower, Forecast, following_pods, forecast
from compiler.deploy.publish.history import good_before
from compiler.deploy.publish.pods import Report
from compiler.deploy.publish.refusals import NoRepository, NotPublished, StillWaiting, WentBack
from compiler.deploy.publish.release import Published, Release, When, document, last_sequence, published_at, release_of, title_of
from compiler.deploy.publish.repository import Repository
from compiler.deploy.publish.waiting import Aim, Ending, follow
from compiler.deploy.refusals import NotAgreed
from compiler.deploy.state_file import FOLDER, StateFile
from compiler.plan import Plan


@dataclasses.dataclass(frozen=True, slots=True)
class Orders:
    """The options of `publish` and `rollback`. `when` None: as the profile says. `to` is the number to go back to."""

    dry_run: bool = False
    yes: bool = False
    now: bool = False
    when: When | None = None
    note: str = ""
    for_new_pods: bool = False
    create_repo: bool = False
    wait: bool = True
    endpoints: tuple[str, ...] = ()
    to: int | None = None
    transport: Transport = "v2"
    as_json: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A compiled profile. `outage` looks up what evidence says of a restart: None where nothing was measured."""

    plan: Plan
    bundle: Bundle
    image_files: Mapping[str, bytes]
    outage: Callable[[], Outage | None] = lambda: None


def run_publish(subject: Subject, orders: Orders, *, folder: Path = FOLDER, clock: Clock | None = None) -> int:
    """Publish a compiled profile. Gives the exit code."""
    return _run(subject, orders, "publish", folder, clock or SystemClock())


def run_rollback(subject: Subject, orders: Orders, *, folder: Path = FOLDER, clock: Clock | None = None) -> int:
    """Publish once more what was good before. Gives the exit code."""
    return _run(subject, orders, "rollback", folder, clock or SystemClock())


def _run(subject: Subject, orders: Orders, deed: Literal["publish", "rollback"], folder: Path, clock: Clock) -> int:
    try:
        with shown(agreed=orders.yes) as display:
            work = _Work(subject, orders, display, clock, folder)
            result = work.publish() if deed == "publish" else work.rollback()
    except DeployError as failure:
        return failed(failure, as_json=orders.as_json)
    return _told(result, orders)


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What came of it. `commit` is None after a dry run, or when the same was published already."""

    profile: str
    repo: str
    sequence: int
    commit: str | None
    forecasts: tuple[Forecast, ...]
    endings: tuple[Ending, ...]
    note: str


class _Work:
    """One publish."""

    def __init__(self, subject: Subject, orders: Orders, display: Shown, clock: Clock, folder: Path) -> None:
        self._plan, self._orders, self._display, self._clock = subject.plan, orders, display, clock
        self._subject, self._file = subject, StateFile(subject.plan.profile, folder)
        if self._plan.publish.repo is None:
            raise NotPublished(
                f"{self._plan.profile} publishes nowhere",
                "Its pods follow nothing: a change of the profile needs a new pod.",
                "Add `publish: {repo: you/pods}` to the profile, make a key with `podwright keygen`, and deploy the pod anew.",
            )
        self._key = checked_key(self._plan, os.environ)
        self._repository = Repository(self._plan.publish.repo, on_wait=display.say)

    def publish(self) -> Result:
        """Publish the profile as it is now."""
        head = self._head()
        before = published_at(self._repository, self._plan.profile, head)
        return self._carried_out(release_of(self._subject.bundle, self._subject.image_files), head, before, self._orders.note)

    def rollback(self) -> Result:
        """Publish the last good one again."""
        head = self._head()
        before = published_at(self._repository, self._plan.profile, head)
        with self._pods() as pods:
            earlier = good_before(self._repository, self._plan.profile, before, pods, self._orders.to)
        note = self._orders.note or f"rollback to {earlier.publication.sequence}"
        return self._carried_out(release.release_again(self._repository, earlier, head), head, before, note)

    def _head(self) -> str:
        try:
            return self._repository.head()
        except NoRepository as missing:
            wanted = self._orders.create_repo and not self._orders.dry_run
            if not wanted and (self._orders.dry_run or self._orders.yes or not self._display.ask(f"{missing.what}. Make it, private?")):
                raise
            self._repository.create()
            self._display.say(f"made {self._repository.name}, private")
            return self._repository.head()

    def _pods(self) -> AbstractContextManager[list[Follower]]:
        return following_pods(
            self._plan, self._orders.endpoints, os.environ, transport=self._orders.transport, file=self._file, say=self._display.say
        )

    def _carried_out(self, wanted: Release, head: str, before: Published | None, note: str) -> Result:
        with self._pods() as pods:
            forecasts = tuple(forecast(pod, wanted, before.manifest if before else None, self._subject.outage) for pod in pods)
            same = before is not None and wanted.is_in(before.publication)
            sequence = before.publication.sequence if same and before else self._next_sequence(before, forecasts)
            when: When = "now" if self._orders.now else self._orders.when or self._plan.publish.when
            self._show(wanted, before, forecasts, sequence, when, same)
            self._warn_of_clock()
            refuse_what_hurts(self._plan.profile, forecasts, when, now=self._orders.now, for_new_pods=self._orders.for_new_pods)
            if self._orders.dry_run:
                return self._result(sequence, None, forecasts, (), "dry run: nothing was published")
            commit = None if same else self._committed(wanted, sequence, when, head, note)
            said = "the same is published already" if same else "published"
            endings = self._followed(forecasts, Aim(sequence, wanted.manifest.sha256(), wanted.runtime)) if self._orders.wait else []
            return self._result(sequence, commit, forecasts, tuple(endings), said)

    def _result(self, sequence: int, commit: str | None, forecasts: tuple[Forecast, ...], endings: tuple[Ending, ...], note: str) -> Result:
        return Result(self._plan.profile, self._repository.name, sequence, commit, forecasts, endings, note)

    def _next_sequence(self, before: Published | None, forecasts: Sequence[Forecast]) -> int:
        """One more than anybody has seen: the repository's file, its history where the file is damaged, and the pods."""
        heard = [f.follower.seen.heard for f in forecasts if isinstance(f.follower.seen, Report)]
        return max([last_sequence(self._repository, self._plan.profile, before), *heard]) + 1

    def _committed(self, wanted: Release, sequence: int, when: When, head: str, note: str) -> str:
        if not self._display.ask(f"Publish {wanted.profile} as number {sequence}?"):
            raise NotAgreed("nobody said yes", "Nothing was published.", "Answer y, or give --yes where nobody can be asked.")
        publication = wanted.publication(sequence, when, self._clock.time(), note)
        guarded = publication_path(wanted.profile)
        files = {**wanted.files, guarded: document(publication, self._key, self._today())}
        commit = self._repository.commit(files, title_of(wanted.profile, sequence, note), head, guarded)
        self._display.say(f"published number {sequence} of {wanted.profile} to {self._repository.name} (commit {commit[:12]})")
        return commit

    def _followed(self, forecasts: Sequence[Forecast], aim: Aim) -> list[Ending]:
        try:
            return follow(forecasts, aim, self._plan.publish.poll_seconds, self._clock, self._display.say)
        except KeyboardInterrupt:
            self._display.say(f"number {aim.sequence} stays published, and pods go on by themselves; run the same command again to look")
            raise

    def _show(
        self, wanted: Release, before: Published | None, forecasts: Sequence[Forecast], sequence: int, when: When, same: bool
    ) -> None:
        text = forecast_text.preview(wanted, before, forecasts, sequence, when, same)
        print(text, file=sys.stderr if self._orders.as_json else sys.stdout, flush=True)

    def _warn_of_clock(self) -> None:
        skew = self._repository.skew_s
        if skew is not None and abs(skew) > MAX_SKEW_S:
            self._display.say(
                f"warning: this machine's clock is {duration(abs(skew))} {'ahead of' if skew > 0 else 'behind'} the Hub's; the Hub's date counts for the signing key"
            )

    def _today(self) -> datetime.date:
        """The day by the Hub's clock: a machine whose clock is wrong neither stretches a key's life nor ends it."""
        skew = self._repository.skew_s
        moment = self._clock.time() - (skew if skew is not None and abs(skew) > MAX_SKEW_S else 0.0)
        return datetime.datetime.fromtimestamp(moment, datetime.UTC).date()


def _told(result: Result, orders: Orders) -> int:
    """Print what came of it; the exit code is that of a failure when a pod went back or says nothing."""
    bad = [e for e in result.endings if not e.ok]
    trouble = _trouble(result, bad) if bad else None
    if orders.as_json:
        print_json(
            forecast_text.result_json(
                result.profile, result.repo, result.sequence, result.commit, result.note, result.forecasts, result.endings, trouble
            )
        )
        return FAILED if trouble else OK
    print(f"{result.profile}: {result.note}" + (f" as number {result.sequence}" if result.sequence and not orders.dry_run else ""))
    for one in result.endings:
        print(f"  {one.pod}: {forecast_text.WORDS[one.end]}: {one.detail}")
    if trouble:
        print(trouble.formatted(), file=sys.stderr)
    return FAILED if trouble else OK


def _trouble(result: Result, bad: Sequence[Ending]) -> DeployError:
    names = ", ".join(e.pod for e in bad)
    if any(e.end in ("back", "refused", "fatal") for e in bad):
        return WentBack(
            f"publication {result.sequence} does not serve in {names}",
            "; ".join(e.detail for e in bad),
            f"The pods serve what they served before, or say why not. Correct the profile and publish again; `podwright rollback {result.profile}` takes the publication back for new pods, too.",
        )
    return StillWaiting(
        f"whether publication {result.sequence} serves in {names} is not known",
        "; ".join(e.detail for e in bad),
        f"It is published, and the pods go on asking. `podwright journal {result.profile}` shows what they say; the same publish command looks again.",
    )
