"""`podwright status, stock` and `cost`: questions that change nothing, except that a lost state file is written again."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from compiler.console import print_json, table
from compiler.deploy.clock import Clock, SystemClock
from compiler.deploy.connection import Transport, connected, provider_name
from compiler.deploy.display import duration, money
from compiler.deploy.failures import DeployError
from compiler.deploy.finding import found_pod, matching, rebuilt
from compiler.deploy.http_api import MAX_SKEW_S
from compiler.deploy.naming import profile_of
from compiler.deploy.outcome import FAILED, OK, failed
from compiler.deploy.proof import Endpoint
from compiler.deploy.provider import GpuOffer, Pod, PodStatus, Provider, Stock, StockQuestion, cuda_key
from compiler.deploy.provider_errors import Unsupported
from compiler.deploy.state_file import FOLDER, PodRecord, StateFile, known_profiles

_NOT_ASKED = "as this folder remembers it: its provider could not be asked"


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One profile as `status` shows it. `record` is what this folder knows, `pod` what the provider says now."""

    profile: str
    record: PodRecord | None
    pod: Pod | None
    ready: bool | None
    note: str
    cost: float | None

    def to_json(self) -> dict[str, object]:
        """A flat mapping."""
        pod = self.pod
        return {
            "profile": self.profile,
            "pod": pod.id if pod else self.record.id if self.record else None,
            "status": str(pod.status) if pod else None,
            "ready": self.ready,
            "url": self.record.url if self.record else None,
            "gpu": pod.gpu_id if pod else None,
            "gpus": pod.gpu_count if pod else None,
            "data_center": pod.data_center if pod else None,
            "cuda": pod.cuda if pod else None,
            "usd_per_hour": pod.price_usd_h if pod else None,
            "cost_usd": self.cost,
            "created": self.record.created if self.record else None,
            "image": self.record.image if self.record else None,
            "manifest": self.record.manifest if self.record else None,
            "machine": pod.machine if pod else None,
            "container_seconds": pod.uptime_s if pod else None,
            "note": self.note,
        }


def run_status(profiles: Sequence[str], *, transport: Transport, as_json: bool, folder: Path = FOLDER, clock: Clock | None = None) -> int:
    """What exists, by one question to each provider and one to each endpoint that runs. Where a provider cannot be asked, what this
    folder knows is shown, and the failure afterwards."""
    time, rows, skew, failure = clock or SystemClock(), [], 0.0, None
    try:
        grouped = _by_provider(profiles, folder)
    except DeployError as error:
        return failed(error, as_json=as_json)
    for name, named in grouped.items():
        try:
            with closing(connected(name, os.environ, transport=transport, clock=time)) as provider:
                rows += status_rows(provider, named, not profiles, folder, time.time())
                skew = max(skew, provider.skew_s(), key=abs)
        except DeployError as error:
            failure = error
            rows += _remembered(named, folder)
    if as_json:
        print_json({"ok": failure is None, "pods": [row.to_json() for row in rows], **(failure.to_json() if failure else {})})
        return FAILED if failure else OK
    if abs(skew) > MAX_SKEW_S:
        print(
            f"warning: this machine's clock is {duration(abs(skew))} {'ahead' if skew > 0 else 'behind'}; ages and costs are off by that",
            file=sys.stderr,
        )
    if failure is not None:
        unknown = sorted(set(profiles) - {row.profile for row in rows})
        print(_status_text(rows, time.time()) if rows else f"this folder knows no pod{' of ' + ', '.join(unknown) if unknown else ''}", flush=True)
        return failed(failure, as_json=False)
    print(_status_text(rows, time.time()) if rows else "no pods; `podwright deploy PROFILE` makes one")
    return OK


def _remembered(profiles: Sequence[str], folder: Path) -> list[Row]:
    """What the state files say; one that cannot be read has been told of already, or will be by its own command."""
    rows = []
    for file in (StateFile(profile, folder) for profile in profiles):
        with suppress(DeployError):
            rows += [Row(file.profile, record, None, None, _NOT_ASKED, None)] if (record := file.read().pod) else []
    return rows


def status_rows(provider: Provider, profiles: Sequence[str], everything: bool, folder: Path, now: float) -> list[Row]:
    """A row for each of the profiles, and with `everything` for each that the provider's list names."""
    pods = provider.pods()
    named = {name for pod in pods if (name := profile_of(pod.name)) is not None} if everything else set()
    return [row for profile in sorted({*profiles, *named}) for row in _rows_of(provider, profile, pods, folder, now)]


def _by_provider(profiles: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """The profiles asked for, or all that this folder knows, by where their pods are; without any, the provider that rents."""
    found: dict[str, list[str]] = {}
    for profile in profiles or known_profiles(folder):
        found.setdefault(provider_name(StateFile(profile, folder)), []).append(profile)
    return found or {"runpod": []}


@dataclasses.dataclass(frozen=True, slots=True)
class Search:
    """Which cards `stock` shows: a part of their name, exact ids, or all (`everything`: also those that are full). `centers` are the
    data centers that matter; none means any."""

    question: StockQuestion
    text: str | None = None
    ids: tuple[str, ...] = ()
    centers: tuple[str, ...] = ()
    everything: bool = False

    def takes(self, offer: GpuOffer) -> bool:
        """Whether a card is shown."""
        if self.ids and offer.id not in self.ids:
            return False
        if self.text is not None and self.text.casefold() not in f"{offer.id} {offer.name}".casefold():
            return False
        return bool(self.everything or self.ids or self.text) or offer.stock is not Stock.NONE


def run_stock(search: Search, *, transport: Transport, as_json: bool) -> int:
    """Cards with their exact ids, memory, price and stock by data center and CUDA version."""
    asked = search.question
    try:
        with closing(connected("runpod", os.environ, transport=transport)) as provider:
            offers = provider.catalogue(asked)
    except DeployError as failure:
        return failed(failure, as_json=as_json)
    if offers is None:
        return failed(Unsupported("this interface has no catalogue"), as_json=as_json)
    shown = sorted(filter(search.takes, offers), key=lambda o: (o.memory_gb or 0, o.prices.get(asked.cloud) or 1e9, o.id))
    if as_json:
        found = [_offer_json(o) for o in shown]
        print_json({"ok": True, "cloud": asked.cloud, "count": asked.count, "cuda": str(asked.cuda), "gpus": found})
        return OK
    plural = "s" if asked.count > 1 else ""
    print(f"{asked.cloud}, {asked.count} GPU{plural} in a pod, CUDA {asked.cuda}; prices are for the whole pod an hour")
    rows = [_stock_row(o, search) for o in shown]
    header = ("GPU id", "VRAM", "price", "stock", "data centers", "CUDA (+ free, - full)")
    print(table(rows, header) if rows else "nothing of that is in stock; --all shows what is full")
    return OK


def run_cost(profiles: Sequence[str], *, transport: Transport, as_json: bool, folder: Path = FOLDER, clock: Clock | None = None) -> int:
    """What each profile's pod cost, from the provider's billing records; by price and age where there are none."""
    time = clock or SystemClock()
    found: list[dict[str, object]] = []
    try:
        for profile in profiles or known_profiles(folder):
            file = StateFile(profile, folder)
            if not profiles and file.read().pod is None:
                continue
            with closing(connected(provider_name(file), os.environ, transport=transport, clock=time)) as provider:
                found.append(_cost_of(provider, profile, file, time.time()))
    except DeployError as failure:
        return failed(failure, as_json=as_json)
    if as_json:
        print_json({"ok": True, "costs": found})
        return OK
    rows = [tuple(str(row[k]) for k in ("profile", "pod", "billed", "estimate", "price", "age")) for row in (_cost_text(f) for f in found)]
    print(table(rows, ("profile", "pod", "billed", "by price and age", "an hour", "age")) if rows else "no pods here")
    return OK


def _rows_of(provider: Provider, profile: str, pods: Sequence[Pod], folder: Path, now: float) -> list[Row]:
    file = StateFile(profile, folder)
    state = file.read()
    ours, record, note = matching(profile, state, pods), state.pod, ""
    if record is None and len(ours) == 1:
        record, note = rebuilt(provider, state, ours[0], file), "the state file was made again from the provider's list"
    if not ours:
        note = "the pod was deleted behind our back; `podwright deploy` makes a new one" if record else "no pod"
        return [Row(profile, record, None, None, note, None)]
    rows = []
    for pod in ours:
        mine = record if record is not None and record.id == pod.id else None
        extra = note if len(ours) == 1 else "one of several pods of this profile: terminate all but one"
        if mine is not None and mine.end_by is not None and now > mine.end_by:
            extra = "its hours (--max-hours) are over: `podwright sweep` ends it"
        cost = (
            dataclasses.replace(mine, price_usd_h=pod.price_usd_h or mine.price_usd_h).cost_usd(now) if mine and pod.status.bills else None
        )
        rows.append(Row(profile, mine, pod, _is_ready(provider, pod, mine), extra, cost))
    return rows


def _is_ready(provider: Provider, pod: Pod, record: PodRecord | None) -> bool | None:
    if pod.status is not PodStatus.RUNNING or record is None:
        return None
    endpoint = Endpoint(record.url, None)
    try:
        return endpoint.ready("/ready").serving
    finally:
        endpoint.close()


def _status_text(rows: Sequence[Row], now: float) -> str:
    cells = []
    for row in rows:
        pod = row.pod
        if pod is None:
            cells.append((row.profile, row.record.id if row.record else "-", "gone" if row.record and row.note != _NOT_ASKED else "-", "", "", "", "", "", row.note))
            continue
        age = duration(now - row.record.created) if row.record and row.record.created else ""
        serving = {True: "serving", False: "not ready", None: ""}[row.ready]
        cells.append(
            (
                row.profile,
                pod.id,
                f"{pod.status}{', ' + serving if serving else ''}",
                f"{pod.gpu_count or '?'} x {pod.gpu_id or '?'}",
                pod.data_center or "",
                f"CUDA {pod.cuda}" if pod.cuda else "",
                f"{money(pod.price_usd_h)}/h" if pod.price_usd_h else "",
                f"{age}{', ' + money(row.cost) if row.cost else ''}",
                row.record.url + (f"  {row.note}" if row.note else "") if row.record else row.note,
            )
        )
    return table(cells, ("profile", "pod", "state", "GPU", "where", "host", "price", "age, cost", ""))


def _cost_of(provider: Provider, profile: str, file: StateFile, now: float) -> dict[str, object]:
    record = found_pod(provider, profile, file)
    charges = provider.charges(record.id, record.created)
    return {
        "profile": profile,
        "pod": record.id,
        "billed_usd": None if charges is None else round(sum(c.usd for c in charges), 4),
        "records": None if charges is None else len(charges),
        "estimate_usd": record.cost_usd(now),
        "usd_per_hour": record.price_usd_h,
        "seconds": now - record.created,
    }


def _cost_text(found: Mapping[str, object]) -> dict[str, str]:
    def usd(name: str) -> str:
        value = found[name]
        return money(value) if isinstance(value, float) else "not known"

    seconds = found["seconds"]
    return {
        "profile": str(found["profile"]),
        "pod": str(found["pod"]),
        "billed": usd("billed_usd"),
        "estimate": usd("estimate_usd"),
        "price": usd("usd_per_hour"),
        "age": duration(seconds if isinstance(seconds, float) else 0.0),
    }


def _stock_row(offer: GpuOffer, search: Search) -> tuple[str, ...]:
    each = offer.prices.get(search.question.cloud)
    price = "-" if each is None else money(each * search.question.count)
    return offer.id, f"{offer.memory_gb or '?'} GB", price, str(offer.stock), _centers(offer, search.centers), _versions(offer)


def _centers(offer: GpuOffer, wanted: Sequence[str]) -> str:
    if not offer.centers_known:
        return "not told"
    named = {c: level for c, level in offer.centers.items() if level is not Stock.NONE and (not wanted or c in wanted)}
    return ", ".join(f"{c} {level}" for c, level in sorted(named.items())) or ("none of the profile's" if wanted and offer.centers else "-")


def _versions(offer: GpuOffer) -> str:
    return " ".join(f"{'+' if offer.cuda[v] else '-'}{v}" for v in sorted(offer.cuda, key=cuda_key, reverse=True)) or "not told"


def _offer_json(offer: GpuOffer) -> dict[str, object]:
    return {
        "id": offer.id,
        "name": offer.name,
        "memory_gb": offer.memory_gb,
        "stock": str(offer.stock),
        "usd_per_gpu_hour": dict(offer.prices),
        "data_centers": {c: str(level) for c, level in offer.centers.items()},
        "cuda": dict(offer.cuda),
        "max_count": dict(offer.max_count),
    }
