"""What a deploy would do, found out by reading only: the plan that is shown before anything is spent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeAlias

from compiler.deploy.candidates import Catalogue, NothingToAsk, Option, cuda_pin, options, usable
from compiler.deploy.failures import DeployError
from compiler.deploy.naming import is_name_of
from compiler.deploy.provider import Cloud, CudaPin, GpuOffer, Pod, PodStatus, Provider, StockQuestion, Template, Wanted
from compiler.deploy.refusals import EndpointKeyMissing, ImageNotFixed, PodDiffers, SecretMissing, SeveralPods
from compiler.deploy.state_file import State
from compiler.plan import Plan

Deed: TypeAlias = Literal["create", "adopt", "start", "replace"]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs from what exists. Values of variables are not kept: somebody may have put a secret there."""

    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.name.startswith("env "):
            return f"{self.name}: {'added' if self.old is None else 'removed' if self.new is None else 'changed'}"
        return f"{self.name}: {self.old or 'nothing'} -> {self.new or 'nothing'}"


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A deploy that was not done yet. `problems` are the reasons for not doing it; with one of them nothing is spent."""

    wanted: Wanted
    deed: Deed
    pod: Pod | None
    pod_differences: tuple[Difference, ...]
    template: Template | None
    template_name: str | None
    template_differences: tuple[Difference, ...]
    options: tuple[Option, ...]
    secrets: Mapping[str, bool | None]
    problems: tuple[DeployError, ...]

    @property
    def candidates(self) -> tuple[Option, ...]:
        """Those that would be asked for, in order."""
        return tuple(o for o in self.options if o.problem is None)

    @property
    def price(self) -> tuple[float, float] | None:
        """Lowest and highest price of the whole pod an hour."""
        known = [o.price for o in self.candidates if o.price is not None]
        if self.pod is not None and self.deed == "adopt" and self.pod.price_usd_h:
            known = [self.pod.price_usd_h]
        return (min(known), max(known)) if known else None


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller asks for. `environment` is where the endpoint's key is looked up."""

    replace: bool = False
    template: bool = True
    unlocked: bool = False
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


def offered(provider: Provider, wanted: Wanted, state: State, wishes: Wishes, now: float) -> Offer:
    """Ask the provider what exists and what is to be had. Changes nothing."""
    ours = pods_of(wanted.plan, provider.pods(), state)
    pod = ours[0] if len(ours) == 1 else None
    fields = provider.pod_fields(wanted)
    changed = differences(pod.fields, _told(fields, pod.fields)) if pod else ()
    deed = _deed(pod, changed)
    found = () if deed == "adopt" else options(wanted.plan, catalogue(provider, wanted.plan, cuda_pin(wanted.plan)), state.sick_places(now))
    template = provider.template(wanted.plan.deploy.template_name) if wishes.template else None
    held = provider.template_fields(wanted) if wishes.template else None
    names = {s.provider_name: s.required for s in wanted.plan.secrets}
    there = provider.secret_names() if names else frozenset()
    secrets = {name: None if there is None else name in there for name in names}
    problems = [
        *_pod_problems(wanted, ours, deed, changed, wishes),
        *_image_problems(wanted.plan, wishes),
        *_secret_problems(secrets, names),
        *_key_problems(wanted.plan, wishes),
        *_choice_problems(found, deed),
    ]
    return Offer(
        wanted,
        deed,
        pod,
        tuple(changed),
        template,
        wanted.plan.deploy.template_name if held is not None else None,
        tuple(differences(template.fields if template else {}, held)) if held is not None else (),
        tuple(found),
        secrets,
        tuple(problems),
    )


def catalogue(provider: Provider, plan: Plan, pin: CudaPin) -> Catalogue:
    """The catalogue of each cloud of the profile, for its count of GPUs and a CUDA pin."""
    found: dict[Cloud, tuple[GpuOffer, ...] | None] = {}
    for cloud in plan.deploy.clouds:
        found[cloud] = provider.catalogue(StockQuestion(cloud, plan.hardware.count, pin))
    return found


def pods_of(plan: Plan, pods: list[Pod], state: State) -> list[Pod]:
    """The profile's pods: the one in the state file, one that was about to be made, and those that carry the profile's name."""
    return [
        pod
        for pod in pods
        if (state.pod is not None and pod.id == state.pod.id) or pod.name == state.intent or is_name_of(plan.deploy.pod_name, pod.name)
    ]


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[Difference]:
    """Fields that differ, by name. What the provider adds to the environment by itself does not count."""
    added = {name for name in old if name.startswith(("env RUNPOD_", "env PUBLIC_KEY", "env JUPYTER_"))} - new.keys()
    names = sorted((old.keys() | new.keys()) - added)
    return [
        Difference(name, old.get(name) or None, new.get(name) or None) for name in names if (old.get(name) or "") != (new.get(name) or "")
    ]


def _told(wanted: Mapping[str, str], held: Mapping[str, str]) -> dict[str, str]:
    """What can be compared: an interface that tells nothing of command or environment says nothing about a difference in them."""
    no_env, no_command = not any(n.startswith("env ") for n in held), not held.get("command") and not held.get("entrypoint")
    untold = {n for n in wanted if (no_env and n.startswith("env ")) or (no_command and n in ("command", "entrypoint"))}
    return {n: value for n, value in wanted.items() if n not in untold}


def _deed(pod: Pod | None, changed: list[Difference] | tuple[Difference, ...]) -> Deed:
    if pod is None:
        return "create"
    if changed or pod.status is PodStatus.ERROR:
        return "replace"
    return "start" if pod.status is PodStatus.EXITED else "adopt"


def _pod_problems(
    wanted: Wanted, ours: list[Pod], deed: Deed, changed: list[Difference] | tuple[Difference, ...], wishes: Wishes
) -> list[DeployError]:
    profile = wanted.plan.profile
    if len(ours) > 1:
        listed = ", ".join(f"{p.id} ({p.name}, {p.status})" for p in ours)
        return [
            SeveralPods(
                f"{len(ours)} pods carry the name of {profile}: {listed}",
                "Each of them may be billed, and nobody knows which one is meant.",
                f"Keep one: `podwright terminate {profile} --pod ID` for each of the others.",
            )
        ]
    if deed == "replace" and not wishes.replace:
        what = "; ".join(map(str, changed)) or "its container is in an error"
        return [
            PodDiffers(
                f"pod {ours[0].id} of {profile} exists and is another one: {what}",
                "A pod keeps image, command and environment of its creation.",
                f"`podwright deploy {profile} --replace` terminates it and makes a new one; its container disk is lost.",
            )
        ]
    return []


def _image_problems(plan: Plan, wishes: Wishes) -> list[DeployError]:
    from compiler.deploy.lock import LOCAL_IMAGES  # Its clients of Hub and registries take time to import.

    if plan.target != "runpod":
        return []
    if plan.image.name.startswith(LOCAL_IMAGES):
        return [
            ImageNotFixed(
                f"{plan.image.name} is a name of this machine's Docker engine",
                "The provider cannot pull it; the pod would wait in a pull error, paid for.",
                f"Push the image (`podwright image {plan.profile} --tag REGISTRY/NAME:TAG`, then docker push) "
                "and name it in container.name, or set container.prebaked to false.",
            )
        ]
    if plan.image.name_digest is None and not wishes.unlocked:
        return [
            ImageNotFixed(
                f"{plan.image.name} has no digest in the profile's lock",
                "A tag can be moved; the pod would run whatever it means that day, and hosts keep old copies.",
                f"Run `podwright lock {plan.profile}`; --unlocked deploys the tag all the same.",
            )
        ]
    return []


def _secret_problems(secrets: Mapping[str, bool | None], required: Mapping[str, bool]) -> list[DeployError]:
    missing = [name for name, there in secrets.items() if there is False and required[name]]
    if not missing:
        return []
    return [
        SecretMissing(
            f"the provider has no secret named {', '.join(missing)}",
            "A reference to a secret that does not exist stays in the pod's variable as text.",
            "Create it in the provider's console under exactly that name.",
        )
    ]


def _key_problems(plan: Plan, wishes: Wishes) -> list[DeployError]:
    name = plan.bridge.api_key_env
    value = wishes.environment.get(name, "").strip() if name else ""
    if name is None or (value and value.isascii() and value.isprintable()):
        return []
    if value:
        return [
            EndpointKeyMissing(
                f"{name} holds characters that no header can carry",
                "The endpoint's key is sent in a header.",
                f"Set {name} to the value of the provider's secret: printable ASCII, on one line.",
            )
        ]
    return [
        EndpointKeyMissing(
            f"{name} is not set",
            "The endpoint asks for that key, so nothing could be proven, and the pod would be paid for all the same.",
            f"Set {name} to the value of the provider's secret that the pod gets.",
        )
    ]


def _choice_problems(found: list[Option] | tuple[Option, ...], deed: Deed) -> list[DeployError]:
    if deed in ("adopt", "start"):
        return []
    try:
        usable(found)
    except NothingToAsk as problem:
        return [problem]
    return []
