"""Plan and live catalogue -> what to ask for, in order, and what the refusals of all of it mean. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from compiler.deploy.failures import DeployError
from compiler.deploy.provider import Candidate, Cloud, CudaPin, GpuOffer, Stock, cuda_key
from compiler.deploy.provider_errors import ProviderError
from compiler.deploy.runpod_common import is_capacity
from compiler.plan import Plan

Catalogue = Mapping[Cloud, tuple[GpuOffer, ...] | None]


class NothingToAsk(DeployError):
    """No candidate is left before anything was asked."""

    code = "DPL020"


class NoCapacity(DeployError):
    """Every candidate was refused because nothing is free."""

    code = "DPL021"


class PinMatchesNothing(DeployError):
    """The cards exist, but no host of them reports a CUDA version that the pin admits."""

    code = "DPL022"


class NotOfferedThere(DeployError):
    """The data centers that the profile names do not have the card."""

    code = "DPL023"


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """A candidate with what the catalogue says of it. `price` is for the whole pod an hour. `problem` is why it is not asked for."""

    candidate: Candidate
    stock: Stock
    price: float | None
    cuda_free: bool | None
    problem: str | None = None

    def to_json(self) -> dict[str, object]:
        """A flat mapping."""
        c = self.candidate
        return {
            "gpu": c.gpu_id,
            "count": c.count,
            "cloud": c.cloud,
            "data_center": c.data_center,
            "cuda": str(c.cuda),
            "stock": str(self.stock),
            "usd_per_hour": self.price,
            "cuda_free": self.cuda_free,
            "problem": self.problem,
        }


def cuda_pin(plan: Plan) -> CudaPin:
    """The profile's CUDA pin."""
    return CudaPin(plan.deploy.cuda_versions, plan.deploy.min_cuda)


def candidates(plan: Plan) -> list[Candidate]:
    """GPU ids x clouds x data centers, each in the profile's order; the first GPU is tried everywhere before the second one. A place
    that rents nothing has one candidate: its own hardware."""
    centers: Sequence[str | None] = plan.deploy.data_centers or (None,)
    pin = cuda_pin(plan)
    if plan.target != "runpod":  # One machine, and nothing to choose.
        return [Candidate(plan.hardware.name, plan.hardware.count, plan.deploy.clouds[0], None, pin)]
    return [
        Candidate(gpu, plan.hardware.count, cloud, center, pin)
        for gpu in plan.hardware.runpod_ids
        for cloud in plan.deploy.clouds
        for center in centers
    ]


def options(plan: Plan, catalogue: Catalogue, sick: Iterable[str] = ()) -> list[Option]:
    """Every candidate with price and stock. Places that lately gave a sick host come last; those above the ceiling have a problem.

    What the catalogue calls empty stays in: its stock is advice, and asking costs nothing.
    """
    avoided = set(sick)
    found = [_option(c, catalogue.get(c.cloud), plan.deploy.price_ceiling_usd_h) for c in candidates(plan)]
    return sorted(found, key=lambda o: o.candidate.place in avoided)


def usable(found: Sequence[Option]) -> list[Option]:
    """Those that may be asked for. Raises NothingToAsk when there is none."""
    left = [o for o in found if o.problem is None]
    if not left:
        reasons = "; ".join(dict.fromkeys(f"{o.candidate.gpu_id} ({o.candidate.cloud}): {o.problem}" for o in found))
        raise NothingToAsk(
            f"no candidate can be asked for: {reasons or 'the hardware has no GPU id'}",
            "Nothing was created, nothing is billed.",
            "Change deploy.price_ceiling, deploy.clouds or the hardware in the profile; `podwright stock PROFILE` shows prices.",
        )
    return left


def verdict(refusals: Sequence[tuple[Candidate, ProviderError]], pinned: Catalogue, unpinned: Catalogue) -> DeployError:
    """What it means that every candidate was refused: nothing free, a pin that no host has, or a request against the rules.

    `pinned` is the catalogue for the profile's CUDA pin, `unpinned` the one for any version; both are asked for after the refusals.
    """
    last = refusals[-1][1]
    asked = [candidate for candidate, _ in refusals]
    if not any(is_capacity(problem.detail) for _, problem in refusals):
        return last
    names = _names(asked)
    if asked[0].cuda.exact or asked[0].cuda.floor:
        versions = {version for c in asked if (offer := _offer(c, unpinned.get(c.cloud))) for version in offer.cuda}
        if versions and not any(asked[0].cuda.admits(version) for version in versions):
            newest = sorted(versions, key=cuda_key)
            return PinMatchesNothing(
                f"no host of {names} reports CUDA {asked[0].cuda}; they report {', '.join(newest)}",
                "The provider answers a pin that nothing matches with the words for a full data center."
                + _exact_note(asked[0].cuda, newest),
                f'Set deploy.cuda to a version that exists, or to a floor: cuda: {{minimum: "{(asked[0].cuda.exact or (asked[0].cuda.floor,))[0]}"}}.',
            )
    elsewhere = _offered_elsewhere(asked, pinned)
    if elsewhere:
        return NotOfferedThere(
            f"{names}: not in {', '.join(sorted({c.data_center for c in asked if c.data_center}))} at present; the catalogue has it in {', '.join(elsewhere)}",
            "The provider never moves a pod to a data center that was not named.",
            "Add one of them to deploy.data_centers, or leave the list out to take any.",
        )
    return NoCapacity(
        f"nothing is free: {names} was refused {len(refusals)} time{'s' if len(refusals) != 1 else ''} ({last.detail})",
        "Capacity comes and goes within minutes. Nothing was created, nothing is billed.",
        "Run the command again in some minutes, or add GPU ids, clouds or data centers to the profile; `podwright stock` shows what is free.",
    )


def _option(candidate: Candidate, offers: tuple[GpuOffer, ...] | None, ceiling: float | None) -> Option:
    """One candidate as the catalogue sees it; a catalogue that does not exist says nothing."""
    if offers is None:
        return Option(candidate, Stock.UNKNOWN, None, None)
    offer = _offer(candidate, offers)
    if offer is None:
        return Option(candidate, Stock.NONE, None, None, "the catalogue has no such GPU id; ids are exact texts")
    each = offer.prices.get(candidate.cloud)
    price = None if each is None else each * candidate.count
    problem = None
    if each is None:
        problem = f"it is not offered in the {candidate.cloud} cloud"
    elif ceiling is not None and price is not None and price > ceiling + 1e-9:
        problem = f"${price:.2f} an hour is above the ceiling of ${ceiling:.2f}"
    elif candidate.count > offer.max_count.get(candidate.cloud, candidate.count):
        problem = f"at most {offer.max_count[candidate.cloud]} of them fit into one pod"
    free = [is_free for version, is_free in offer.cuda.items() if candidate.cuda.admits(version)]
    return Option(candidate, offer.stock_in(candidate.data_center), price, any(free) if offer.cuda else None, problem)


def _offer(candidate: Candidate, offers: tuple[GpuOffer, ...] | None) -> GpuOffer | None:
    return next((o for o in offers or () if o.id == candidate.gpu_id), None)


def _names(asked: Sequence[Candidate]) -> str:
    return ", ".join(
        dict.fromkeys(f"{c.count} x {c.gpu_id} ({c.cloud}, {c.data_center or 'any data center'}, CUDA {c.cuda})" for c in asked)
    )


def _exact_note(pin: CudaPin, versions: Sequence[str]) -> str:
    newest = max(pin.exact, key=cuda_key, default=None)
    if newest and any(cuda_key(v) > cuda_key(newest) for v in versions):
        return f" The pin is an exact list: it leaves out newer hosts, which run programs of CUDA {newest} just as well."
    return ""


def _offered_elsewhere(asked: Sequence[Candidate], catalogue: Catalogue) -> list[str]:
    """Data centers with stock of a card that was asked for, when none of those asked for has any."""
    if any(c.data_center is None for c in asked):
        return []
    found: set[str] = set()
    for candidate in asked:
        offer = _offer(candidate, catalogue.get(candidate.cloud))
        if offer is None or not offer.centers_known:
            continue
        if offer.stock_in(candidate.data_center) is not Stock.NONE:
            return []
        found |= {center for center, level in offer.centers.items() if level not in (Stock.NONE, Stock.UNKNOWN)}
    return sorted(found - {c.data_center for c in asked})
