"""All that one engine opens, brought to this disk: measured, room looked for, fetched by child processes, measured again."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pod.contract import Fetch
from pod.hub import child
from pod.hub.child import Outcome, Progress, Retry
from pod.weights.presence import Presence, in_gib, presence
from pod.weights.room import RESERVE_BYTES, Room, room

Tell = Callable[[str, Progress | Retry], None]


@dataclasses.dataclass(frozen=True)
class WeightsPlan:
    """What is on disk of an engine's repositories, and whether the rest fits. `missing` are those to fetch, in order."""

    found: tuple[Presence, ...]
    missing: tuple[Fetch, ...]
    room: Room

    @property
    def summary(self) -> str:
        """One sentence for the journal."""
        if not self.missing:
            return f"all of {len(self.found)} repositories are whole on disk"
        lacking = "; ".join(f"{p.repo} {p.problem}" for p in self.found if not p.whole)
        return f"to fetch: {lacking} ({in_gib(self.room.need_bytes)} to come, {in_gib(self.room.free_bytes)} free)"


def weights_plan(fetches: Sequence[Fetch], hub_cache: Path) -> WeightsPlan:
    """Measure. A repository whose size nobody planned counts as nothing here; its download looks at the room again."""
    found = tuple(presence(hub_cache, fetch) for fetch in fetches)
    missing = tuple(fetch for fetch, have in zip(fetches, found, strict=True) if not have.whole)
    need = sum(max(0, (have.expected_bytes or 0) - have.present_bytes) for have in found if not have.whole)
    return WeightsPlan(found, missing, room(hub_cache, need))


def command(fetch: Fetch, hub_cache: Path, python: str = sys.executable) -> list[str]:
    """The command line that fetches one repository; `pod.hub.child` reads what it says."""
    return child.argv("download", python, repo=fetch.repo, revision=fetch.revision, cache=hub_cache, reserve=RESERVE_BYTES)


def bring(
    fetches: Sequence[Fetch], hub_cache: Path, env: Mapping[str, str], tell: Tell = lambda repo, line: None, python: str = sys.executable
) -> Outcome:
    """Fetch what is missing, one repository after the other, and look again. `tell` gets each repository's progress.

    What is on disk already is never asked for at the Hub. The outcome is the first that is not ok; `may_pass` says whether
    the same may work later. Waits; meant for a thread or a process of its own.
    """
    plan = weights_plan(fetches, hub_cache)
    # The planned size counts files that an engine does not open, so it warns and the Hub's own sizes decide.
    for fetch in plan.missing:
        outcome = child.run(command(fetch, hub_cache, python), env, lambda line, repo=fetch.repo: tell(repo, line))  # type: ignore[misc]
        if not outcome.is_ok:
            return outcome
        have = presence(hub_cache, fetch)
        if not have.whole:
            return Outcome(
                "error",
                f"{fetch.repo} was downloaded and still {have.problem}",
                "look at the repository on the Hub: it does not hold what this model's engine opens",
                False,
                outcome.facts,
            )
    return Outcome("ok", plan.summary, "", False, {"fetched": [fetch.repo for fetch in plan.missing]})
