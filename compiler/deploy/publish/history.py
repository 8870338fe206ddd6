"""What was published before: the Hub's history is the memory, and the pods say which of it was good."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.deploy.publish.followers import Follower
from compiler.deploy.publish.pods import Report
from compiler.deploy.publish.refusals import NothingGood
from compiler.deploy.publish.release import Published, earlier_publications, published_at
from compiler.deploy.publish.repository import Repository

# Each look costs two small answers; whoever wants to go back further says the number.
LOOKS = 30


def good_before(repository: Repository, profile: str, now: Published | None, pods: Sequence[Follower], to: int | None) -> Published:
    """The publication to go back to: number `to`, else what a pod last proved to be good, else the last one with another manifest.

    What a pod went back from is never chosen. Raises NothingGood.
    """
    reports = [pod.seen for pod in pods if isinstance(pod.seen, Report)]
    failed = {sha for report in reports for sha in report.quarantined}
    good = {report.good for report in reports if report.good}
    current = now.manifest.sha256() if now and now.manifest else None
    candidates = [
        p
        for p in _earlier(repository, profile, to)
        if p.manifest is not None and (to is not None or p.manifest.sha256() not in {*failed, current})
    ]
    chosen = next((p for p in candidates if p.manifest and p.manifest.sha256() in good), candidates[0] if candidates else None)
    if chosen is None:
        wanted = f"number {to} of {profile}" if to is not None else f"another publication of {profile} that did not fail"
        raise NothingGood(
            f"the history of {repository.name} does not hold {wanted}",
            "A rollback publishes once more what was published before; old files stay in the history.",
            "`podwright rollback --to NUMBER` names one; the commits of the repository show the numbers. Else check the profile out as it was and publish it.",
        )
    return chosen


def _earlier(repository: Repository, profile: str, to: int | None) -> Iterator[Published]:
    looked = 0
    for number, commit in earlier_publications(repository, profile):
        if looked >= LOOKS or (to is not None and number != to):
            continue
        looked += 1
        found = published_at(repository, profile, commit)
        if found is not None and found.publication.sequence == number:
            yield found
