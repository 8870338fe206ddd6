"""A deploy from its first request to the proof that the pod serves, as an explicit machine; and its way back when anything fails.

Stages: template -> asking -> waiting -> proving -> serving; from each of them `cleaning` on a failure or Ctrl-C. The state file is written
before a pod is asked for (its name) and after (its id), so that at any moment there is either no pod or one that the next command finds.
"""

from __future__ import annotations

import dataclasses
import enum
import secrets
from collections.abc import Mapping
from typing import Protocol

from compiler.deploy import troubles
from compiler.deploy.candidates import Option, cuda_pin, options, usable, verdict
from compiler.deploy.clock import Clock
from compiler.deploy.create import AllRefused, Created, Creator
from compiler.deploy.failures import DeployError
from compiler.deploy.naming import record_of, unique_name
from compiler.deploy.offer import Offer, catalogue
from compiler.deploy.proof import Proof
from compiler.deploy.provider import Candidate, CudaPin, Pod, PodStatus, Provider
from compiler.deploy.provider_errors import Forbidden, KeyRefused, ProviderError, Refused, Retired, WrongState
from compiler.deploy.refusals import NotAgreed, StillBilling, TemplateTaken
from compiler.deploy.runpod_common import HOST_FULL
from compiler.deploy.state_file import PodRecord, State, StateFile
from compiler.deploy.troubles import PodTrouble
from compiler.deploy.waiting import Waiter

# Hosts that turn out bad: the third one in a row is no accident, and a person should look.
MOST_PODS = 3


class Stage(enum.StrEnum):
    """Where a deploy is."""

    TEMPLATE = "template"
    ASKING = "asking"
    WAITING = "waiting"
    PROVING = "proving"
    SERVING = "serving"
    CLEANING = "cleaning"


class Display(Protocol):
    """Where a deploy tells what it does."""

    def say(self, text: str) -> None:
        """One thing that happened."""
        ...

    def stage(self, stage: Stage) -> None:
        """The deploy goes over to a stage."""
        ...

    def ask(self, question: str) -> bool:
        """A yes or no of the person; False where nobody can be asked."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """What the caller decided. `keep` leaves a pod that failed; `end_by_h` are the hours after which the pod is to be ended."""

    keep: bool = False
    end_by_h: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A pod that serves: its record, what was proven, what it cost until now, and how many seconds each phase took."""

    record: PodRecord
    proofs: tuple[Proof, ...]
    cost_usd: float | None
    seconds: float
    phases: Mapping[str, float]


class Life:
    """One deploy. `run` gives a pod that serves, or raises with nothing left that bills (unless it says so)."""

    def __init__(
        self, provider: Provider, offer: Offer, file: StateFile, waiter: Waiter, display: Display, clock: Clock, terms: Terms
    ) -> None:
        self._provider, self._offer, self._file, self._waiter = provider, offer, file, waiter
        self._display, self._clock, self._terms = display, clock, terms
        self._plan, self._wanted = offer.wanted.plan, offer.wanted
        self._state = file.read()
        self._owned = False
        self._doubtful: set[str] = set()
        self._began = clock.time()
        self.stage = Stage.TEMPLATE

    def run(self) -> Outcome:
        """Template, pod, wait, proof. Raises DeployError, or KeyboardInterrupt after having cleaned up."""
        try:
            self._template()
            record, candidate = self._first_pod()
            for left in range(MOST_PODS - 1, -1, -1):
                try:
                    return self._served(record)
                except PodTrouble as trouble:
                    if not trouble.kind.elsewhere or self._terms.keep or not self._owned or left == 0:
                        raise
                    record, candidate = self._again(trouble, record, candidate)
            raise AssertionError("the last pod returns or raises")
        except BaseException as failure:
            self._clean(failure)
            raise

    def _template(self) -> None:
        """Create or change the template where it differs."""
        self._enter(Stage.TEMPLATE)
        if not self._offer.template_differences or self._offer.template_name is None:
            return
        try:
            made = self._provider.write_template(self._wanted, self._offer.template)
        except (Refused, WrongState, Forbidden) as problem:
            words = problem.detail.casefold()
            if self._offer.template is None and any(word in words for word in ("unique", "exist", "taken", "in use", "duplicate")):
                raise TemplateTaken(
                    f"the template name {self._offer.template_name} is taken: {problem.detail}",
                    "Names of templates are unique, and this account does not own that one.",
                    "Rename the profile, or leave the template out with --no-template: the pod does not need it.",
                ) from problem
            raise
        if made is not None:
            self._display.say(f"template {made.name}: {'changed' if self._offer.template else 'created'} ({made.id})")
            self._save(dataclasses.replace(self._state, template_id=made.id))

    def _first_pod(self) -> tuple[PodRecord, Candidate | None]:
        """The pod to wait for: adopted, started, or made."""
        existing = self._offer.pod
        if existing is not None and self._offer.deed == "adopt":
            self._display.say(f"pod {existing.id} exists and is what the profile asks for: nothing is created")
            self._owned = self._state.pod is None or self._state.pod.served is None
            return self._remember(existing), None
        if existing is not None and self._offer.deed == "start" and self._started(existing):
            return self._remember(existing), None
        choice = usable(self._offer.options or self._options())
        if existing is None:
            return self._made(choice)
        own_machine = self._plan.deploy.provider == "local"  # Two pods of a profile want the same ports and GPUs there.
        if existing.status.bills and existing.status is not PodStatus.ERROR and not own_machine:
            return self._made_before_ending(existing, choice)
        self._terminate(existing.id, existing.price_usd_h)
        return self._made(choice)

    def _made_before_ending(self, old: Pod, choice: list[Option]) -> tuple[PodRecord, Candidate]:
        """A pod that may serve is ended only when its successor has a place; without capacity it is left as it is."""
        before = self._state
        try:
            made = self._made(choice)
        except DeployError:
            if self._state.pod is None and self._state.intent is None:
                self._owned = False
                self._save(before)
            raise
        self._provider.act(old, "terminate")
        self._display.say(f"pod {old.id}: terminated, its successor has a place")
        return made

    def _started(self, pod: Pod) -> bool:
        """Start a stopped pod; False when its host is full and a new one may be made instead."""
        try:
            self._provider.act(pod, "start")
        except (Refused, WrongState) as problem:
            if HOST_FULL not in problem.detail.casefold():
                raise
            if not self._display.ask(
                f"The host of pod {pod.id} has no free GPU. Terminate it and make a new one? Its container disk is lost already."
            ):
                raise NotAgreed(
                    f"pod {pod.id} cannot start: {problem.detail}",
                    "Its host gave the GPUs to somebody else; no pod moves by itself.",
                    f"Say yes, or run `podwright terminate {self._plan.profile}`.",
                ) from problem
            return False
        self._owned = True  # It bills because of this command.
        self._display.say(f"pod {pod.id}: started")
        return True

    def _made(self, choice: list[Option]) -> tuple[PodRecord, Candidate]:
        """Ask for a pod of a new name, which is written down first."""
        self._enter(Stage.ASKING)
        name = self._state.intent or unique_name(self._plan.deploy.pod_name, secrets.token_hex(3))
        self._save(dataclasses.replace(self._state, intent=name, pod=None, provider=self._provider.name))
        self._owned = True
        creator = Creator(self._provider, self._wanted, name, self._clock, self._display.say)
        try:
            created = creator.run(choice)
        except AllRefused as refused:
            self._save(dataclasses.replace(self._state, intent=None))
            raise self._verdict(refused) from refused
        finally:
            self._doubtful |= {name} if creator.doubtful else set()
        self._display.say(self._created_text(created))
        return self._remember(created.pod, created.candidate), created.candidate

    def _verdict(self, refused: AllRefused) -> DeployError:
        """What the refusals mean, with the catalogue asked once more; the last refusal itself where that cannot be had."""
        try:
            pin = cuda_pin(self._plan)
            pinned = catalogue(self._provider, self._plan, pin)
            return verdict(refused.refusals, pinned, catalogue(self._provider, self._plan, CudaPin()))
        except ProviderError:
            return refused.refusals[-1][1]

    def _served(self, record: PodRecord) -> Outcome:
        """Wait until the pod serves, and prove it."""
        ceiling = self._plan.deploy.price_ceiling_usd_h
        if self._owned and ceiling is not None and record.price_usd_h is not None and record.price_usd_h > ceiling + 1e-9:
            raise PodTrouble(
                troubles.TOO_DEAR,
                f"pod {record.id} costs ${record.price_usd_h:.2f} an hour; the ceiling is ${ceiling:.2f}",
                profile=self._plan.profile,
                pod_id=record.id,
            )
        self._enter(Stage.WAITING)
        pod = self._waiter.until_serving(record)
        self._enter(Stage.PROVING)
        proofs = self._waiter.proven(record, pod)
        self._end_twins(record.id)
        self._enter(Stage.SERVING)
        record = dataclasses.replace(
            record, served=self._clock.time(), cuda=pod.cuda or record.cuda, price_usd_h=pod.price_usd_h or record.price_usd_h
        )
        self._save(dataclasses.replace(self._state, pod=record))
        return Outcome(record, tuple(proofs), record.cost_usd(self._clock.time()), self._clock.time() - self._began, self._waiter.phases())

    def _again(self, trouble: PodTrouble, record: PodRecord, candidate: Candidate | None) -> tuple[PodRecord, Candidate]:
        """Terminate a pod on a bad host at once, remember the place, and ask for another one, that place last."""
        self._display.say(f"{trouble.code} {trouble}; terminating it and asking for another host")
        if candidate is None and not self._display.ask(f"Terminate pod {record.id} and make a new one?"):
            raise trouble
        self._terminate(record.id, record.price_usd_h)
        place = candidate.place if candidate else f"{record.gpu_id} / {record.cloud} / {record.data_center or 'any data center'}"
        self._save(self._state.with_sick(place, self._clock.time()))
        return self._made(usable(self._options()))

    def _options(self) -> list[Option]:
        """Candidates as the catalogue has them now."""
        found = catalogue(self._provider, self._plan, cuda_pin(self._plan))
        return options(self._plan, found, self._state.sick_places(self._clock.time()))

    def _remember(self, pod: Pod, candidate: Candidate | None = None) -> PodRecord:
        """Write the pod down."""
        before = self._state.pod if self._state.pod is not None and self._state.pod.id == pod.id else None
        created = pod.created or (before.created if before else self._clock.time())
        hours = [h for h in (self._terms.end_by_h, self._plan.deploy.max_hours) if h]
        end_by = created + min(hours) * 3600 if hours else before.end_by if before else None
        record = record_of(
            pod, self._provider, self._offer.wanted.plan.network.endpoint_port, self._plan.image.reference, self._wanted.manifest, created
        )
        record = dataclasses.replace(record, end_by=end_by, served=before.served if before else None)
        if candidate is not None:
            record = dataclasses.replace(
                record,
                gpu_id=record.gpu_id or candidate.gpu_id,
                cloud=record.cloud or candidate.cloud,
                data_center=record.data_center or candidate.data_center,
            )
        self._save(dataclasses.replace(self._state, pod=record, intent=None, provider=self._provider.name))
        return record

    def _clean(self, failure: BaseException) -> None:
        """Leave nothing that bills, or say what does. A pod that served before this command is left alone."""
        if self.stage is Stage.SERVING:
            return
        self._enter(Stage.CLEANING)
        record = self._state.pod
        try:
            self._end_twins(record.id if record else None)
            if record is None and self._state.intent is not None:
                record = self._lost_pod(self._state.intent)
            if record is None or not self._owned:
                if record is not None:
                    self._display.say(
                        f"pod {record.id} was there before and is left as it is; `podwright terminate {self._plan.profile}` ends it"
                    )
                return
            if self._terms.keep:
                bills = "" if self._plan.deploy.provider == "local" else f" and bills ${record.price_usd_h or 0:.2f} an hour"
                self._display.say(f"pod {record.id} is kept{bills}; `podwright terminate {self._plan.profile}` ends it")
                return
            if not (isinstance(failure, PodTrouble) and failure.kind.name == "gone"):
                self._terminate(record.id, record.price_usd_h)
            else:
                self._save(dataclasses.replace(self._state, pod=None, intent=None))
        except (ProviderError, OSError, KeyboardInterrupt) as problem:
            raise self._still_billing(record, problem) from failure

    def _end_twins(self, kept: str | None) -> None:
        """Terminate pods that a failed create made after all, later than we looked for them. They carry the name that was asked for."""
        if not self._doubtful:
            return
        for pod in self._provider.pods():
            if pod.name in self._doubtful and pod.id != kept:
                self._provider.act(pod, "terminate")
                self._display.say(f"pod {pod.id} was made by a request that had failed: terminated")

    def _lost_pod(self, name: str) -> PodRecord | None:
        """The pod of a name that was asked for without an answer."""
        try:
            found = next((pod for pod in self._provider.pods() if pod.name == name), None)
        except (KeyRefused, Retired):
            found = None  # Who may not ask what exists could not create anything either.
        if found is None:
            self._save(dataclasses.replace(self._state, intent=None))
            return None
        return self._remember(found)

    def _terminate(self, pod_id: str, price: float | None) -> None:
        """End a pod for good and forget it."""
        self._provider.act(Pod(pod_id, "", PodStatus.UNKNOWN), "terminate")
        over = "" if self._plan.deploy.provider == "local" else ", nothing is billed any more"
        self._display.say(f"pod {pod_id}: terminated{over}" + (f" (it was ${price:.2f} an hour)" if price else ""))
        self._save(dataclasses.replace(self._state, pod=None, intent=None))

    def _still_billing(self, record: PodRecord | None, problem: BaseException) -> StillBilling:
        which = f"pod {record.id}" if record else f"a pod named {self._state.intent}"
        said = problem.what if isinstance(problem, ProviderError) else str(problem) or "interrupted again"
        return StillBilling(
            f"{which} may still be running and billed: it could not be terminated ({said})",
            "Each hour is paid for until it is terminated.",
            f"Run `podwright terminate {self._plan.profile}` as soon as the provider answers again, or terminate it in the console.",
        )

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._display.stage(stage)

    def _save(self, state: State) -> None:
        self._state = state
        self._file.write(state)

    def _created_text(self, created: Created) -> str:
        pod = created.pod
        done = "found" if created.found else "created"
        if self._plan.deploy.provider == "local":
            return f"pod {pod.id} ({pod.name}): {done} on this machine"
        price = f"${pod.price_usd_h:.2f} an hour" if pod.price_usd_h else "price not told"
        return f"pod {pod.id} ({pod.name}): {done}, {created.candidate}, {price}"
