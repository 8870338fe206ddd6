"""Looking at a pod until it serves, at a pace that no server minds, and proving that it does."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from itertools import pairwise

from compiler.deploy import troubles
from compiler.deploy.candidates import cuda_pin
from compiler.deploy.clock import Clock, Pace
from compiler.deploy.proof import Endpoint, Proof
from compiler.deploy.provider import LogLine, Pod, PodStatus, Provider
from compiler.deploy.provider_errors import Garbled, Intercepted, Missing, ProviderError, RateLimited, ServerFailed, Unanswered, Unsupported
from compiler.deploy.refusals import LimitReached
from compiler.deploy.state_file import PodRecord
from compiler.deploy.troubles import PodTrouble
from compiler.deploy.watch import Ready, Seen, Step, Watch
from compiler.plan import Plan

# Between any two requests, whoever they go to.
PACE_S = 2.0
# Between two looks at a pod: a phase takes minutes.
LOOK_S = 6.0
LOG_TAIL = 200
# A network that is away this long will not be back in time; a pod that nobody watches burns money.
LONGEST_SILENCE_S = 600.0
# An engine that has just become ready may fail its first request.
PROOF_TRIES, PROOF_PAUSE_S = 3, 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """One look, for a display: the step, the pod, and what it cost so far."""

    step: Step
    pod: Pod
    seconds: float
    cost_usd: float | None


class Waiter:
    """Waits for one profile's pod. `endpoint` opens an address; `show` gets every look."""

    def __init__(
        self,
        provider: Provider,
        plan: Plan,
        clock: Clock,
        endpoint: Callable[[str], Endpoint],
        *,
        say: Callable[[str], None],
        show: Callable[[Progress], None],
    ) -> None:
        self._provider, self._plan, self._clock, self._endpoint, self._say, self._show = provider, plan, clock, endpoint, say, show
        self._pace = Pace(clock, PACE_S)
        self._has_logs = True
        self._tail: tuple[LogLine, ...] = ()
        self.last: Watch | None = None

    def until_serving(self, record: PodRecord) -> Pod:
        """Look until the endpoint is ready; the pod as it is then. Raises PodTrouble, LimitReached or a ProviderError."""
        plan, began = self._plan, self._clock.time()
        watch = Watch(
            plan.profile, record.id, pin=cuda_pin(plan), gpus=plan.hardware.count, stall_s=plan.watchdog.boot_stall_s, began=began
        )
        self.last, self._tail, silent_since = watch, (), None
        with contextlib.closing(self._endpoint(record.url)) as endpoint:
            while True:
                looked = self._clock.time()
                try:
                    seen = self._look(record, endpoint)
                    silent_since = None
                except (Unanswered, ServerFailed, RateLimited, Garbled, Intercepted) as problem:
                    silent_since = silent_since or looked
                    if looked - silent_since > LONGEST_SILENCE_S:
                        raise
                    pause = max(LOOK_S, problem.retry_after_s) if isinstance(problem, RateLimited) else LOOK_S
                    self._say(f"{problem.what}; looking again in {pause:.0f} s")
                    self._clock.sleep(pause)
                    continue
                now = self._clock.time()
                step = watch.feed(now, seen)
                if seen.pod is not None:
                    self._show(Progress(step, seen.pod, now - began, record.cost_usd(now)))
                    if seen.ready is not None and seen.ready.serving:
                        return seen.pod
                _check_limit(record, now, plan.profile)
                self._clock.sleep(max(0.0, looked + LOOK_S - now))

    def proven(self, record: PodRecord, pod: Pod) -> list[Proof]:
        """All proofs. Raises PodTrouble when one of them fails three times."""
        with contextlib.closing(self._endpoint(record.url)) as endpoint:
            for attempt in range(1, PROOF_TRIES + 1):
                self._pace.wait()
                proofs = endpoint.prove(self._plan, pod, cuda_pin(self._plan), self._say)
                if all(proof.ok for proof in proofs):
                    return proofs
                failed = proofs[-1]
                kind = troubles.CUDA_MISMATCH if failed.name == "CUDA" else troubles.PROOF_FAILED
                if attempt == PROOF_TRIES or kind is troubles.CUDA_MISMATCH:
                    raise PodTrouble(
                        kind,
                        f"{failed.name}: {failed.detail}",
                        profile=self._plan.profile,
                        pod_id=pod.id,
                        lines=self.last.last_lines() if self.last else (),
                    )
                self._clock.sleep(PROOF_PAUSE_S)
        raise AssertionError("the last attempt returns or raises")

    def phases(self) -> dict[str, float]:
        """Seconds that each phase of the last pod took."""
        reached = list(self.last.passed.items()) if self.last else []
        return {str(phase): after - at for (phase, at), (_, after) in pairwise(reached)}

    def _look(self, record: PodRecord, endpoint: Endpoint) -> Seen:
        """One look: the record, the log, and once the container runs, the endpoint."""
        self._pace.wait()
        try:
            pod = self._provider.pod(record.id)
        except Missing:
            return Seen(None)
        lines = self._lines(record.id) if pod.status is not PodStatus.PROVISIONING else ()
        ready: Ready | None = None
        if pod.status not in (PodStatus.PROVISIONING, PodStatus.EXITED, PodStatus.ERROR):
            self._pace.wait()
            ready = endpoint.ready(ready_path(self._plan))
        return Seen(pod, lines, ready)

    def _lines(self, pod_id: str) -> tuple[LogLine, ...]:
        """Lines since the last look; none where the interface has no logs, or does not give them now."""
        if not self._has_logs:
            return ()
        self._pace.wait()
        try:
            tail = tuple(self._provider.logs(pod_id, tail=LOG_TAIL))
        except Unsupported as problem:
            self._has_logs = False
            self._say(f"{problem.what}: phases are known from the endpoint alone")
            return ()
        except ProviderError:
            return ()
        new = fresh(self._tail, tail)
        self._tail = tail or self._tail
        return new


def fresh(before: Sequence[LogLine], tail: Sequence[LogLine]) -> tuple[LogLine, ...]:
    """The lines of `tail` that come after the last one known; all of them when that one is not there any more."""
    if before and before[-1] in tail:
        return tuple(tail[len(tail) - list(reversed(tail)).index(before[-1]) :])
    return tuple(tail)


def ready_path(plan: Plan) -> str:
    """Where the endpoint says whether it serves: the bridge's own question, or the engine's."""
    return "/health" if plan.bridge.mode == "off" else "/ready"


def _check_limit(record: PodRecord, now: float, profile: str) -> None:
    if record.end_by is not None and now > record.end_by:
        raise LimitReached(
            f"the hours of pod {record.id} are over",
            "--max-hours was given when it was made.",
            f"Run `podwright deploy {profile}` with a higher limit.",
        )
