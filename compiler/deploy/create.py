"""Creating one pod, and only one: candidates in order, RunPod's retry table, and a look by name before anything is asked twice.

| answer | what is done |
|---|---|
| 201 | done |
| 400 | next candidate; the last reason counts when all are refused |
| 402, 401, 410, a page of somebody in between | stop |
| 403 | next candidate |
| 422, 413 | stop: the request is wrong everywhere |
| 429 | wait as long as it says, then the same candidate |
| 5xx, no answer, half an answer | look the name up; if it is not there, the same candidate after a pause, at most three times |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from compiler.deploy.candidates import Option
from compiler.deploy.clock import Clock
from compiler.deploy.provider import Candidate, Pod, Provider, Wanted
from compiler.deploy.provider_errors import Forbidden, Garbled, ProviderError, RateLimited, Refused, ServerFailed, Unanswered
from compiler.deploy.runpod_common import is_capacity

# One hiccup passes in seconds; a candidate that fails three times in a row is left for the next one.
TRIES_EACH = 3
FIRST_PAUSE_S = 4.0
# A pod that was made shows up in the list a moment after the failed answer.
LOOK_AFTER_S = 2.0
# A storm of 429 is waited out this long altogether; then a person should know.
LONGEST_STORM_S = 900.0


@dataclasses.dataclass(frozen=True, slots=True)
class Created:
    """The pod, the candidate that it was asked for by, and whether it was found after a failed answer instead of told."""

    pod: Pod
    candidate: Candidate
    found: bool = False


class AllRefused(Exception):
    """Every candidate was refused; `refusals` says how."""

    def __init__(self, refusals: list[tuple[Candidate, ProviderError]]) -> None:
        super().__init__("every candidate was refused")
        self.refusals = refusals


class Creator:
    """Asks for a pod of one name. Raises AllRefused, or the ProviderError that ends the attempt."""

    def __init__(self, provider: Provider, wanted: Wanted, name: str, clock: Clock, say: Callable[[str], None]) -> None:
        self._provider, self._wanted, self._name, self._clock, self._say = provider, wanted, name, clock, say
        self._storm_s = 0.0
        self.doubtful = False
        """Whether a create failed without an answer and the name was not in the list: the pod may show up there later."""

    def run(self, options: Sequence[Option]) -> Created:
        """Go through the options until one gives a pod."""
        refusals: list[tuple[Candidate, ProviderError]] = []
        for number, option in enumerate(options, 1):
            if len(options) > 1 or self._provider.name == "runpod":
                self._say(f"asking for {option.candidate} ({number} of {len(options)})")
            try:
                return self._one(option.candidate)
            except (Refused, Forbidden, ServerFailed) as problem:
                self._say(f"refused: {'nothing is free' if is_capacity(problem.detail) else problem.what}")
                refusals.append((option.candidate, problem))
        failed = next((problem for _, problem in refusals if isinstance(problem, ServerFailed)), None)
        if failed is not None and all(isinstance(problem, ServerFailed) for _, problem in refusals):
            raise failed
        raise AllRefused(refusals)

    def _one(self, candidate: Candidate) -> Created:
        """One candidate, asked for as often as the table allows."""
        failures = 0
        while True:
            try:
                return Created(self._provider.create(self._wanted, self._name, candidate), candidate)
            except RateLimited as storm:
                self._wait_out(storm)
            except Refused as problem:
                # v1 says 500 for a refusal, and has said 500 for a pod that it made.
                if (problem.status or 0) >= 500 and (pod := self._look()) is not None:
                    return Created(pod, candidate, found=True)
                raise
            except (ServerFailed, Unanswered, Garbled) as failure:
                pod = self._look()
                if pod is not None:
                    self._say(f"{failure.what}; but the pod exists: {pod.id}")
                    return Created(pod, candidate, found=True)
                failures, self.doubtful = failures + 1, True
                if failures == TRIES_EACH or is_capacity(failure.detail):
                    raise
                pause = FIRST_PAUSE_S * 2.0 ** (failures - 1)
                self._say(f"{failure.what}; no pod was made; asking again in {pause:.0f} s")
                self._clock.sleep(pause)

    def _look(self) -> Pod | None:
        """The pod of our name, if it exists after all."""
        self._clock.sleep(LOOK_AFTER_S)
        return next((pod for pod in self._provider.pods() if pod.name == self._name), None)

    def _wait_out(self, storm: RateLimited) -> None:
        self._storm_s += storm.retry_after_s
        if self._storm_s > LONGEST_STORM_S:
            raise storm
        self._say(f"{storm.what}; waiting {storm.retry_after_s:.0f} s")
        self._clock.sleep(storm.retry_after_s)
